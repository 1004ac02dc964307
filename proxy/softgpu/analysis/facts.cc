#include "proxy/softgpu/analysis/facts.h"

#include <algorithm>
#include <unordered_set>

#include "proxy/softgpu/analysis/cfg.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::Instruction;
using ptx::kNoIndex;
using ptx::Operand;

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// True if the first operand is a destination.
bool HasDestination(const Instruction& instruction) {
  static constexpr std::string_view kNone[] = {
      "st",       "red",          "bra",           "brx",      "ret",  "exit",
      "membar",   "fence",        "prefetch",      "cp",       "trap", "brkpt",
      "call",     "prefetchu",    "nanosleep",     "discard",  "sust", "sured",
      "stmatrix", "stackrestore", "applypriority", "tensormap"};
  if (instruction.opcode == "mbarrier")
    return !instruction.Has("init") && !instruction.Has("inval") && instruction.operands.size() > 1;
  if (instruction.opcode == "bar" || instruction.opcode == "barrier") return instruction.Has("red");
  return !IsOneOf(instruction.opcode, kNone);
}

bool IsCollective(const Instruction& instruction) {
  static constexpr std::string_view kCollectives[] = {
      "bar",       "barrier", "shfl", "vote", "match",    "redux",    "activemask",
      "nanosleep", "elect",   "mma",  "wmma", "ldmatrix", "stmatrix", "movmatrix"};
  return IsOneOf(instruction.opcode, kCollectives) ||
         (instruction.opcode == "tensormap" && instruction.Has("cp_fenceproxy"));
}

// True for loads of values likely to be changed by other threads.
bool ReadsSharedState(const Instruction& instruction) {
  if (instruction.opcode == "atom") return true;
  if (instruction.opcode == "mbarrier")
    return instruction.Has("test_wait") || instruction.Has("try_wait");
  if (instruction.opcode != "ld") return false;
  static constexpr std::string_view kMarks[] = {"volatile", "relaxed", "acquire",
                                                "mmio",     "cv",      "cg"};
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                     [](std::string_view modifier) { return IsOneOf(modifier, kMarks); });
}

template <typename Visit>
void VisitRegisters(const Operand& operand, Visit visit) {
  if (operand.kind == Operand::Kind::kRegister) visit(operand.index);
  for (const auto& element : operand.elements) VisitRegisters(element, visit);
}

void CollectSymbols(const Operand& operand, std::vector<std::string_view>* symbols) {
  if (operand.kind == Operand::Kind::kSymbol) symbols->push_back(operand.name);
  for (const auto& element : operand.elements) CollectSymbols(element, symbols);
}

bool IsReservedShared(const Operand& operand) {
  using ptx::SpecialRegister;
  return operand.kind == Operand::Kind::kSpecial &&
         (operand.special == SpecialRegister::kReservedSmemBegin ||
          operand.special == SpecialRegister::kReservedSmemEnd ||
          operand.special == SpecialRegister::kReservedSmemCap);
}

// Index of the callee operand: 1 behind a list of results, else 0.
std::size_t CalleePosition(const Instruction& instruction) {
  const bool results =
      !instruction.operands.empty() && instruction.operands[0].kind == Operand::Kind::kVector;
  return results ? 1 : 0;
}

// Registers of one cycle holding values written by other threads, or computed from them.
class Taint {
 public:
  Taint(const ptx::Body& body, const FlowGraph& graph, std::uint32_t cycle,
        const std::function<bool(std::string_view)>& callee_reads)
      : body_(body), callee_reads_(callee_reads), tainted_(body.registers.size(), false) {
    for (const auto& block : graph.blocks) {
      if (block.cycle != cycle) continue;
      for (std::uint32_t i = block.begin; i < block.end; ++i) instructions_.push_back(i);
    }
  }

  // True if a branch of the cycle depends on a tainted register.
  bool DecidesBranch() {
    while (Propagate()) {
    }
    // A compare-and-swap retrying with the value just read fails only if another thread makes
    // progress.
    for (std::uint32_t i : instructions_)
      if (RetriesWithValueRead(body_.instructions[i])) harmless_.insert(i);
    if (!harmless_.empty()) {
      tainted_.assign(tainted_.size(), false);
      memory_ = false;
      while (Propagate()) {
      }
    }
    return std::any_of(instructions_.begin(), instructions_.end(), [&](std::uint32_t i) {
      const Instruction& instruction = body_.instructions[i];
      if (!IsBranch(instruction) && !LeavesFunction(instruction)) return false;
      bool depends = instruction.guard != kNoIndex && tainted_[instruction.guard];
      for (const auto& operand : instruction.operands)
        VisitRegisters(operand, [&](std::uint32_t r) { depends = depends || tainted_[r]; });
      return depends;
    });
  }

 private:
  bool RetriesWithValueRead(const Instruction& instruction) const {
    if (instruction.opcode != "atom" || !instruction.Has("cas") || instruction.operands.size() < 3)
      return false;
    const Operand& compare = instruction.operands[2];
    return compare.kind == Operand::Kind::kRegister && tainted_[compare.index];
  }

  bool Propagate() {
    bool changed = false;
    for (std::uint32_t i : instructions_) {
      const Instruction& instruction = body_.instructions[i];
      bool depends = (ReadsSharedState(instruction) && harmless_.count(i) == 0) ||
                     (instruction.guard != kNoIndex && tainted_[instruction.guard]);
      if (instruction.opcode == "call") {
        const std::string_view callee = CalleeOf(instruction);
        if (!memory_ && (callee.empty() || callee_reads_(callee))) memory_ = changed = true;
      }
      const bool destination = HasDestination(instruction);
      for (std::size_t k = destination ? 1 : 0; k < instruction.operands.size(); ++k)
        VisitRegisters(instruction.operands[k],
                       [&](std::uint32_t r) { depends = depends || tainted_[r]; });
      if (instruction.opcode == "ld" && memory_) depends = true;
      if (instruction.opcode == "st" && depends && !memory_) memory_ = changed = true;
      if (!depends || !destination || instruction.operands.empty()) continue;
      VisitRegisters(instruction.operands[0], [&](std::uint32_t r) {
        if (!tainted_[r]) tainted_[r] = changed = true;
      });
    }
    return changed;
  }

  const ptx::Body& body_;
  const std::function<bool(std::string_view)>& callee_reads_;
  std::vector<bool> tainted_;
  std::vector<std::uint32_t> instructions_;
  std::unordered_set<std::uint32_t> harmless_;  // Instructions.
  bool memory_ = false;                         // Some memory read by the cycle may be tainted.
};

}  // namespace

std::vector<std::uint32_t> WrittenRegisters(const Instruction& instruction) {
  std::vector<std::uint32_t> registers;
  if (instruction.operands.empty()) return registers;
  const Operand& first = instruction.operands[0];
  const bool is_result =
      instruction.opcode == "call" ? CalleePosition(instruction) == 1 : HasDestination(instruction);
  if (is_result && first.kind != Operand::Kind::kAddress)
    VisitRegisters(first, [&](std::uint32_t r) { registers.push_back(r); });
  return registers;
}

std::vector<std::uint32_t> ReadRegisters(const Instruction& instruction) {
  std::vector<std::uint32_t> registers;
  const bool skip_first = !WrittenRegisters(instruction).empty();
  for (std::size_t i = skip_first ? 1 : 0; i < instruction.operands.size(); ++i)
    VisitRegisters(instruction.operands[i], [&](std::uint32_t r) { registers.push_back(r); });
  return registers;
}

bool IsBlockBarrier(const Instruction& instruction) {
  if (instruction.opcode == "nanosleep") return true;
  return (instruction.opcode == "bar" || instruction.opcode == "barrier") &&
         !instruction.Has("warp");
}

bool IsWarpCollective(const Instruction& instruction) {
  static constexpr std::string_view kNames[] = {"shfl", "vote", "match", "redux", "elect"};
  return IsOneOf(instruction.opcode, kNames) ||
         ((instruction.opcode == "bar" || instruction.opcode == "barrier") &&
          instruction.Has("warp"));
}

std::size_t MembersAt(const Instruction& instruction) {
  if (instruction.opcode == "shfl") return 4;
  if (instruction.opcode == "bar" || instruction.opcode == "barrier") return 0;
  return instruction.opcode == "elect" ? 1 : 2;
}

std::string_view CalleeOf(const Instruction& call) {
  const std::size_t position = CalleePosition(call);
  const bool named =
      position < call.operands.size() && call.operands[position].kind == Operand::Kind::kSymbol;
  return named ? call.operands[position].name : std::string_view();
}

BodyFacts CollectFacts(const ptx::Body& body) {
  BodyFacts facts;
  for (const auto& instruction : body.instructions) {
    facts.has_collective = facts.has_collective || IsCollective(instruction);
    facts.exits = facts.exits || instruction.opcode == "exit";
    facts.reads_shared_state = facts.reads_shared_state || ReadsSharedState(instruction);
    for (const auto& operand : instruction.operands)
      facts.uses_reserved_shared = facts.uses_reserved_shared || IsReservedShared(operand);
    std::size_t first = 0, end = instruction.operands.size();
    if (instruction.opcode == "call") {
      const std::size_t position = CalleePosition(instruction);
      if (position < instruction.operands.size()) {
        const Operand& callee = instruction.operands[position];
        if (callee.kind == Operand::Kind::kSymbol) {
          facts.callees.push_back(callee.name);
        } else {
          facts.calls_indirectly = true;
          // The last operand names a prototype or a list of targets declared in the body.
          if (instruction.operands.back().kind == Operand::Kind::kSymbol) --end;
        }
        first = position + 1;
      }
    }
    for (std::size_t i = first; i < end; ++i)
      CollectSymbols(instruction.operands[i], &facts.symbols);
  }
  return facts;
}

std::vector<std::uint32_t> FindSpinBranches(
    const ptx::Body& body, const std::function<bool(std::string_view)>& callee_reads) {
  std::vector<std::uint32_t> branches;
  const FlowGraph graph = BuildFlowGraph(body);
  std::vector<bool> spins(graph.cycle_count, false);
  for (std::uint32_t cycle = 0; cycle < graph.cycle_count; ++cycle)
    spins[cycle] = Taint(body, graph, cycle, callee_reads).DecidesBranch();
  for (const auto& block : graph.blocks) {
    if (block.cycle == kNoIndex || !spins[block.cycle]) continue;
    const std::uint32_t last = block.end - 1;
    if (!IsBranch(body.instructions[last])) continue;
    const bool backward =
        std::any_of(block.successors.begin(), block.successors.end(), [&](std::uint32_t successor) {
          return graph.blocks[successor].cycle == block.cycle &&
                 graph.blocks[successor].begin <= last;
        });
    if (backward) branches.push_back(last);
  }
  return branches;
}

}  // namespace cuspan::softgpu::analysis
