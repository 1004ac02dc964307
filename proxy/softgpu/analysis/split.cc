#include "proxy/softgpu/analysis/split.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proxy/softgpu/analysis/bits.h"
#include "proxy/softgpu/analysis/cfg.h"
#include "proxy/softgpu/analysis/dominators.h"
#include "proxy/softgpu/analysis/facts.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::Instruction;
using ptx::kNoIndex;
using ptx::Operand;
using ptx::Type;

// Limits of the analysis tables.
constexpr std::size_t kMaxSplitBlocks = 3000;
constexpr std::size_t kMaxSplitInstructions = 60000;

template <typename Visit>
void VisitRegisters(Operand& operand, Visit visit) {
  if (operand.kind == Operand::Kind::kRegister) visit(operand);
  for (auto& element : operand.elements) VisitRegisters(element, visit);
}

class Splitter {
 public:
  explicit Splitter(ptx::Body* body) : body_(*body), graph_(BuildFlowGraph(*body)) {}

  void Run() {
    const std::size_t count = graph_.blocks.size();
    if (count == 0 || count > kMaxSplitBlocks || body_.instructions.size() > kMaxSplitInstructions)
      return;
    FindCandidates();
    if (candidates_.empty()) return;
    FindOrder();
    // Copies cannot be placed on the edge into the function.
    if (!blocks_.predecessors[0].empty()) return;
    FindLive();
    PlaceJoins();
    Rename();
    Rebuild();
  }

 private:
  // Phi of static single assignment. Each predecessor writes `inbound` at its end; the block copies
  // it to `value` at its start. All copies of an edge thus happen together.
  struct Joined {
    std::uint32_t candidate, value, inbound;
  };
  struct Copy {
    std::uint32_t to, from;
  };

  void FindCandidates() {
    std::vector<unsigned> writes(body_.registers.size(), 0);
    std::vector<bool> excluded(body_.registers.size(), false);
    for (auto reg : body_.formal_registers)
      if (reg != kNoIndex) excluded[reg] = true;
    for (auto& instruction : body_.instructions) {
      const auto written = WrittenRegisters(instruction);
      for (auto reg : written) ++writes[reg];
      // Instructions changing a part of their destination, or adding to it.
      const bool partial = instruction.opcode == "wgmma";
      for (auto& operand : instruction.operands) {
        const bool destination = !written.empty() && &operand == &instruction.operands[0];
        VisitRegisters(operand, [&](const Operand& part) {
          if (partial || (destination && !part.selector.empty())) excluded[part.index] = true;
        });
      }
    }
    candidate_of_.assign(body_.registers.size(), kNoIndex);
    for (std::uint32_t r = 0; r < writes.size(); ++r) {
      if (writes[r] < 2 || excluded[r] || !CanBeCopied(body_.registers[r].type)) continue;
      candidate_of_[r] = static_cast<std::uint32_t>(candidates_.size());
      candidates_.push_back(r);
    }
  }
  static bool CanBeCopied(Type type) {
    const unsigned bits = ptx::BitsOf(type);
    return type == Type::kPred ||
           (!ptx::IsPacked(type) && !ptx::IsPackedInteger(type) && (bits == 32 || bits == 64));
  }
  std::uint32_t CandidateOf(std::uint32_t reg) const {
    return reg < candidate_of_.size() ? candidate_of_[reg] : kNoIndex;
  }

  void FindOrder() {
    successors_.resize(graph_.blocks.size());
    for (std::size_t i = 0; i < successors_.size(); ++i) {
      successors_[i] = graph_.blocks[i].successors;
      std::sort(successors_[i].begin(), successors_[i].end());
      successors_[i].erase(std::unique(successors_[i].begin(), successors_[i].end()),
                           successors_[i].end());
    }
    blocks_ = Dominators(successors_);
  }

  void FindLive() {
    const std::size_t count = graph_.blocks.size();
    std::vector<Bits> used(count, Bits(candidates_.size()));
    written_.assign(count, Bits(candidates_.size()));
    live_.assign(count, Bits(candidates_.size()));
    std::vector<Bits> killed = written_;
    for (auto block : blocks_.order) {
      for (auto i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) {
        const auto& instruction = body_.instructions[i];
        const auto use = [&](std::uint32_t reg) {
          const std::uint32_t c = CandidateOf(reg);
          if (c != kNoIndex && !killed[block].Has(c)) used[block].Add(c);
        };
        if (instruction.guard != kNoIndex) use(instruction.guard);
        for (auto reg : ReadRegisters(instruction)) use(reg);
        for (auto reg : WrittenRegisters(instruction)) {
          const std::uint32_t c = CandidateOf(reg);
          if (c == kNoIndex) continue;
          // A guarded write may keep the old value, so this counts as a read.
          if (instruction.guard != kNoIndex) use(reg);
          killed[block].Add(c);
          written_[block].Add(c);
        }
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t n = blocks_.order.size(); n-- > 0;) {
        const std::uint32_t block = blocks_.order[n];
        Bits live(candidates_.size());
        for (auto next : successors_[block]) live.AddAll(live_[next]);
        live.RemoveAll(killed[block]);
        live.AddAll(used[block]);
        changed = live_[block].AddAll(live) || changed;
      }
    }
  }

  // R. Cytron et al.: "Efficiently Computing Static Single Assignment Form and the Control
  // Dependence Graph"; only where the value is live.
  void PlaceJoins() {
    const std::size_t count = graph_.blocks.size();
    std::vector<std::vector<std::uint32_t>> frontier(count);
    for (auto block : blocks_.order) {
      if (blocks_.predecessors[block].size() < 2) continue;
      for (auto from : blocks_.predecessors[block]) {
        for (std::uint32_t at = from; at != blocks_.immediate[block]; at = blocks_.immediate[at]) {
          auto& own = frontier[at];
          if (std::find(own.begin(), own.end(), block) == own.end()) own.push_back(block);
        }
      }
    }
    joined_.resize(count);
    std::vector<std::uint32_t> seen(count, kNoIndex);
    for (std::uint32_t c = 0; c < candidates_.size(); ++c) {
      std::vector<std::uint32_t> work;
      for (auto block : blocks_.order)
        if (written_[block].Has(c)) work.push_back(block);
      while (!work.empty()) {
        const std::uint32_t block = work.back();
        work.pop_back();
        for (auto at : frontier[block]) {
          if (seen[at] == c || !live_[at].Has(c)) continue;
          seen[at] = c;
          const std::uint32_t value = NewRegister(c);
          joined_[at].push_back({c, value, NewRegister(c)});
          work.push_back(at);
        }
      }
    }
  }

  std::uint32_t NewRegister(std::uint32_t candidate) {
    body_.registers.push_back(body_.registers[candidates_[candidate]]);
    return static_cast<std::uint32_t>(body_.registers.size() - 1);
  }

  // Walks the dominator tree; `now` has the register with each candidate's current value. A
  // candidate's own register serves reads before the first write.
  void Rename() {
    const std::size_t count = graph_.blocks.size();
    std::vector<std::vector<std::uint32_t>> children(count);
    for (auto block : blocks_.order)
      if (block != 0) children[blocks_.immediate[block]].push_back(block);
    at_begin_.resize(count);
    at_end_.resize(count);
    before_.resize(body_.instructions.size());
    std::vector<std::uint32_t> now = candidates_;
    struct Visit {
      std::uint32_t block;
      std::size_t child = 0;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> saved;  // Candidate, register.
    };
    std::vector<Visit> path;
    const auto enter = [&](std::uint32_t block) {
      path.push_back({block, 0, {}});
      const auto set = [&](std::uint32_t c, std::uint32_t reg) {
        path.back().saved.emplace_back(c, now[c]);
        now[c] = reg;
      };
      for (const auto& joined : joined_[block]) {
        at_begin_[block].push_back({joined.value, joined.inbound});
        set(joined.candidate, joined.value);
      }
      for (auto i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i)
        RenameOne(i, now, set);
      for (auto next : successors_[block])
        for (const auto& joined : joined_[next])
          at_end_[block].push_back({joined.inbound, now[joined.candidate]});
    };
    enter(0);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.child < children[visit.block].size()) {
        enter(children[visit.block][visit.child++]);
        continue;
      }
      for (std::size_t i = visit.saved.size(); i-- > 0;)
        now[visit.saved[i].first] = visit.saved[i].second;
      path.pop_back();
    }
  }

  template <typename Set>
  void RenameOne(std::uint32_t i, const std::vector<std::uint32_t>& now, Set set) {
    auto& instruction = body_.instructions[i];
    const bool writes = !WrittenRegisters(instruction).empty();
    const auto read = [&](Operand& part) {
      if (const auto c = CandidateOf(part.index); c != kNoIndex) part.index = now[c];
    };
    for (std::size_t k = writes ? 1 : 0; k < instruction.operands.size(); ++k)
      VisitRegisters(instruction.operands[k], read);
    if (instruction.guard != kNoIndex)
      if (const auto c = CandidateOf(instruction.guard); c != kNoIndex) instruction.guard = now[c];
    if (!writes) return;
    VisitRegisters(instruction.operands[0], [&](Operand& part) {
      const std::uint32_t c = CandidateOf(part.index);
      if (c == kNoIndex) return;
      part.index = NewRegister(c);
      if (instruction.guard != kNoIndex) before_[i].push_back({part.index, now[c]});
      set(c, part.index);
    });
  }

  Instruction MakeCopy(const Copy& copy, std::uint32_t line) const {
    Instruction made;
    made.opcode = "mov";
    made.types[0] = body_.registers[copy.to].type;
    made.line = line;
    for (const std::uint32_t reg : {copy.to, copy.from}) {
      Operand operand;
      operand.kind = Operand::Kind::kRegister;
      operand.index = reg;
      made.operands.push_back(std::move(operand));
    }
    return made;
  }

  void Rebuild() {
    const auto count = static_cast<std::uint32_t>(body_.instructions.size());
    std::vector<std::uint32_t> moved(count + 1);
    std::vector<Instruction> instructions;
    for (std::uint32_t n = 0; n < graph_.blocks.size(); ++n) {
      const Block& block = graph_.blocks[n];
      for (auto i = block.begin; i < block.end; ++i) {
        const std::uint32_t line = body_.instructions[i].line;
        const bool last = i + 1 == block.end;
        const bool leaves =
            IsBranch(body_.instructions[i]) || LeavesFunction(body_.instructions[i]);
        moved[i] = static_cast<std::uint32_t>(instructions.size());
        const auto add = [&](const std::vector<Copy>& copies) {
          for (const auto& copy : copies) instructions.push_back(MakeCopy(copy, line));
        };
        if (i == block.begin) add(at_begin_[n]);
        add(before_[i]);
        if (last && leaves) add(at_end_[n]);
        instructions.push_back(std::move(body_.instructions[i]));
        if (last && !leaves) add(at_end_[n]);
      }
    }
    moved[count] = static_cast<std::uint32_t>(instructions.size());
    for (auto& label : body_.labels)
      if (label.position != kNoIndex) label.position = moved[label.position];
    body_.instructions = std::move(instructions);
  }

  ptx::Body& body_;
  const FlowGraph graph_;
  std::vector<std::uint32_t> candidates_;    // Registers.
  std::vector<std::uint32_t> candidate_of_;  // Index in candidates_ by register, or kNoIndex.
  std::vector<std::vector<std::uint32_t>> successors_;
  Dominators blocks_;
  std::vector<Bits> written_,
      live_;  // Candidates by block: written in it, live at its start.
  std::vector<std::vector<Joined>> joined_;
  std::vector<std::vector<Copy>> at_begin_, at_end_;  // Indexed by block.
  std::vector<std::vector<Copy>> before_;             // Indexed by instruction.
};

}  // namespace

void SplitRegisters(ptx::Body* body) { Splitter(body).Run(); }

}  // namespace cuspan::softgpu::analysis
