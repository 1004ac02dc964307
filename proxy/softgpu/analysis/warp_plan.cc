#include "proxy/softgpu/analysis/warp_plan.h"

#include <algorithm>
#include <unordered_set>

#include "common/format.h"
#include "proxy/softgpu/analysis/facts.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::Instruction;
using ptx::kNoIndex;
using ptx::Operand;

// Limit of the analysis time.
constexpr std::size_t kMaxPlannedInstructions = 60000;
// All lanes' copies of .local variables are on one stack.
constexpr std::uint64_t kMaxLocalBytes = 128 << 10;

// True for matrix instructions: only the runtime of single threads implements them.
bool IsMatrix(const Instruction& instruction) {
  for (std::string_view name : {"mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "movmatrix"})
    if (instruction.opcode == name) return true;
  return false;
}

// True for an unconditional barrier of all threads of the block.
bool IsPlainBarrier(const Instruction& instruction) {
  return (instruction.opcode == "bar" || instruction.opcode == "barrier") &&
         !instruction.Has("warp") && instruction.Has("sync") && instruction.operands.size() == 1 &&
         instruction.guard == kNoIndex;
}

// True if other threads may see an effect; unknown instructions count.
bool Acts(const Instruction& instruction) {
  static const auto* const kInert = new std::unordered_set<std::string_view>{
      "ld",   "ldu", "mov",  "cvt",   "cvta",   "add",  "sub", "mul",  "mad",  "fma",
      "and",  "or",  "xor",  "not",   "shl",    "shr",  "neg", "abs",  "min",  "max",
      "setp", "set", "selp", "bra",   "ret",    "exit", "bfe", "bfi",  "lop3", "prmt",
      "popc", "clz", "shf",  "fence", "membar", "div",  "rem", "shfl", "vote", "activemask"};
  return kInert->count(instruction.opcode) == 0;
}

class FunctionPlanner {
 public:
  FunctionPlanner(const ptx::Module& module, const PlannedFunction& planned,
                  const WarpLayout& layout)
      : function_(module.functions[planned.index]),
        body_(*planned.body),
        layout_(layout),
        graph_(BuildFlowGraph(body_)) {}

  bool Plan(std::string* why) {
    auto schedule = BuildSchedule(body_, graph_, function_.entry);
    if (!schedule) {
      *why = "its control flow is not reducible, or too large";
      return false;
    }
    out_.schedule = std::move(*schedule);
    node_count_ = out_.schedule.nodes.size();
    FindLive();
    forced_ = Bits(body_.registers.size());
    for (auto reg : body_.formal_registers)
      if (reg != kNoIndex) forced_.Add(reg);
    do {
      FindShapes();
      if (!FindWaiting(why)) return false;
    } while (ForceLanes());
    FindMeetings();
    return true;
  }

  const WarpFunction& function() const { return out_; }
  WarpFunction Extract() { return std::move(out_); }
  const FlowGraph& graph() const { return graph_; }

  // True if diverged lanes may execute one collective at two different nodes.
  bool CollectivesMayMeet(std::string* why) const {
    std::vector<std::uint32_t> nodes;
    for (std::uint32_t n = 0; n < node_count_; ++n) {
      if (out_.Together(n)) continue;
      ForInstructions(n, [&](std::uint32_t i) {
        const auto& instruction = body_.instructions[i];
        const bool meets = IsWarpCollective(instruction) && !MaskIsOwn(instruction);
        if (meets && (nodes.empty() || nodes.back() != n)) nodes.push_back(n);
      });
    }
    for (auto x : nodes)
      for (auto y : nodes)
        if (y > x && apart_[x].Has(y)) {
          *why = Format("diverged lanes may execute lines {} and {} as one collective",
                        FirstLine(x), FirstLine(y));
          return true;
        }
    return false;
  }

  template <typename Visit>
  void ForInstructions(std::uint32_t node, Visit visit) const {
    const std::uint32_t block = out_.schedule.nodes[node].block;
    if (block == kNoIndex) return;
    for (std::uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) visit(i);
  }

  // True if lanes waiting during `node` could have an effect visible to other threads before the
  // next barrier of the block. Otherwise they may wait while the others spin.
  bool WaitersMayAct(std::uint32_t node) const {
    Bits seen(node_count_);
    std::vector<std::uint32_t> work;
    const auto visit = [&](std::uint32_t n) {
      if (seen.Has(n)) return;
      seen.Add(n);
      work.push_back(n);
    };
    out_.waiting[node].ForEach([&](std::uint32_t n) {
      if (n < node_count_) visit(n);
    });
    while (!work.empty()) {
      const std::uint32_t n = work.back();
      work.pop_back();
      if (n == out_.schedule.return_node) return true;
      bool acts = false, stops = false;
      ForInstructions(n, [&](std::uint32_t i) {
        const auto& instruction = body_.instructions[i];
        stops = stops || IsPlainBarrier(instruction);
        acts = acts || (!stops && Acts(instruction));
      });
      if (acts) return true;
      if (stops) continue;
      for (auto next : out_.schedule.nodes[n].successors) visit(next);
    }
    return false;
  }

  bool GuardIsUniform(const Instruction& instruction) const {
    return instruction.guard == kNoIndex || out_.registers[instruction.guard].uniform();
  }

 private:
  std::uint32_t FirstLine(std::uint32_t node) const {
    return body_.instructions[graph_.blocks[out_.schedule.nodes[node].block].begin].line;
  }

  // True if the member mask derives from activemask, match or a vote, and so names lanes executing
  // together.
  bool MaskIsOwn(const Instruction& instruction) const {
    const std::size_t at = MembersAt(instruction);
    if (at >= instruction.operands.size()) return true;  // No .sync.
    const Operand& members = instruction.operands[at];
    return members.kind == Operand::Kind::kRegister && own_masks_.Has(members.index);
  }

  void FindOwnMasks() {
    own_masks_ = Bits(body_.registers.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& i : body_.instructions) {
        const bool source = i.opcode == "activemask" || i.opcode == "match" ||
                            (i.opcode == "vote" && i.Has("ballot"));
        const auto read = ReadRegisters(i);
        const bool derived = i.opcode != "ld" && std::any_of(read.begin(), read.end(), [&](auto r) {
                               return own_masks_.Has(r);
                             });
        if (!source && !derived) continue;
        for (auto r : WrittenRegisters(i)) {
          changed = changed || !own_masks_.Has(r);
          own_masks_.Add(r);
        }
      }
    }
  }

  void FindLive() {
    const std::size_t count = body_.registers.size();
    std::vector<Bits> used(node_count_, Bits(count)), killed(node_count_, Bits(count));
    live_.assign(node_count_, Bits(count));
    for (std::uint32_t n = 0; n < node_count_; ++n) {
      ForInstructions(n, [&](std::uint32_t i) {
        const auto& instruction = body_.instructions[i];
        const auto use = [&](std::uint32_t r) {
          if (!killed[n].Has(r)) used[n].Add(r);
        };
        if (instruction.guard != kNoIndex) use(instruction.guard);
        for (auto r : ReadRegisters(instruction)) use(r);
        if (instruction.guard != kNoIndex) return;
        for (auto r : WrittenRegisters(instruction)) killed[n].Add(r);
      });
    }
    if (out_.schedule.return_node != kNoIndex) {
      const auto results = function_.signature.results.size();
      for (std::size_t i = 0; i < results; ++i)
        if (body_.formal_registers[i] != kNoIndex)
          used[out_.schedule.return_node].Add(body_.formal_registers[i]);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t n = node_count_; n-- > 0;) {
        Bits live(count);
        for (auto next : out_.schedule.nodes[n].successors) live.AddAll(live_[next]);
        live.RemoveAll(killed[n]);
        live.AddAll(used[n]);
        changed = live_[n].AddAll(live) || changed;
      }
    }
  }

  void FindShapes() {
    auto& registers = out_.registers;
    registers.assign(body_.registers.size(), Shape{});
    forced_.ForEach([&](std::uint32_t r) {
      if (r < registers.size()) registers[r] = kLanesShape;
    });
    out_.instructions.resize(body_.instructions.size());
    for (;;) {
      for (bool changed = true; changed;) {
        changed = false;
        for (std::uint32_t n = 0; n < node_count_; ++n)
          ForInstructions(n, [&](std::uint32_t i) { changed = Replan(i) || changed; });
      }
      // Registers without any write hold zero.
      bool found = false;
      for (auto& shape : registers) {
        if (shape.known()) continue;
        shape = kUniformShape;
        found = true;
      }
      if (!found) return;
    }
  }

  bool Replan(std::uint32_t i) {
    const auto& instruction = body_.instructions[i];
    auto& plan = out_.instructions[i];
    plan = PlanInstruction(function_, body_, instruction, out_.registers, layout_);
    Shape result = plan.result;
    if (!GuardIsKnown(instruction)) return false;
    if (!GuardIsUniform(instruction)) result = kLanesShape;
    bool changed = false;
    for (auto r : WrittenRegisters(instruction)) {
      const Shape joined = Join(out_.registers[r], result);
      changed = changed || !(joined == out_.registers[r]);
      out_.registers[r] = joined;
    }
    return changed;
  }
  bool GuardIsKnown(const Instruction& instruction) const {
    return instruction.guard == kNoIndex || out_.registers[instruction.guard].known();
  }

  bool FindWaiting(std::string* why) {
    FindOwnMasks();
    const Schedule& schedule = out_.schedule;
    out_.waiting.assign(node_count_, Bits(node_count_));
    apart_.assign(node_count_, Bits(node_count_));
    for (std::uint32_t n = 0; n < node_count_; ++n) {
      const Node& node = schedule.nodes[n];
      if (node.block == kNoIndex) continue;
      const auto& last = body_.instructions[graph_.blocks[node.block].end - 1];
      if (last.opcode == "brx" &&
          !(last.operands.size() == 2 && IsUniform(last.operands[0]) && GuardIsUniform(last))) {
        *why = Format("lanes may branch to different labels at line {} (brx)", last.line);
        return false;
      }
      if (GuardIsUniform(last)) continue;
      // If all continuing lanes take one path, none waits.
      if (node.successors.size() < 2) continue;
      // Lanes wait for each other at a join only if all nodes before it run before it. Nodes behind
      // it, as the end of a loop in between, run later.
      std::uint32_t join = schedule.join[n];
      std::vector<Bits> reached = WaysTo(node, join);
      while (join != kNoIndex && AnyBehind(reached, join)) {
        join = schedule.join[join];
        reached = WaysTo(node, join);
      }
      for (std::size_t i = 0; i < reached.size(); ++i) {
        for (std::size_t j = 0; j < reached.size(); ++j) {
          if (i == j) continue;
          Bits others = reached[j];
          if (join != kNoIndex) others.Add(join);
          reached[i].ForEach([&](std::uint32_t x) { out_.waiting[x].AddAll(others, x + 1); });
          FindApart(node.successors[i], node.successors[j], join);
        }
      }
    }
    out_.kept.assign(node_count_, Bits(body_.registers.size()));
    for (std::uint32_t n = 0; n < node_count_; ++n)
      out_.waiting[n].ForEach([&](std::uint32_t y) { out_.kept[n].AddAll(live_[y]); });
    return true;
  }

  void FindMeetings() {
    out_.may_meet = Bits(node_count_);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::uint32_t n = node_count_; n-- > 0;) {
        if (out_.may_meet.Has(n)) continue;
        bool meets = n == out_.schedule.return_node;
        ForInstructions(n, [&](std::uint32_t i) {
          const auto& instruction = body_.instructions[i];
          meets = meets || IsWarpCollective(instruction) || IsBlockBarrier(instruction) ||
                  IsMatrix(instruction) || instruction.opcode == "call";
        });
        for (auto next : out_.schedule.nodes[n].successors)
          meets = meets || out_.may_meet.Has(next);
        if (!meets) continue;
        out_.may_meet.Add(n);
        changed = true;
      }
    }
    if (out_.schedule.return_node != kNoIndex) return;
    for (std::uint32_t n = 0; n < node_count_; ++n) {
      Bits awaited = out_.waiting[n];
      awaited.KeepOnly(out_.may_meet);
      if (awaited.empty()) continue;
      ForInstructions(n, [&](std::uint32_t i) {
        const auto& instruction = body_.instructions[i];
        out_.may_owe = out_.may_owe || (IsWarpCollective(instruction) && !MaskIsOwn(instruction));
      });
    }
  }

  // Nodes reachable by each successor of the node without passing `join`.
  std::vector<Bits> WaysTo(const Node& node, std::uint32_t join) const {
    std::vector<Bits> ways;
    for (auto next : node.successors) ways.push_back(ReachedFrom(out_.schedule, next, join));
    return ways;
  }
  static bool AnyBehind(const std::vector<Bits>& reached, std::uint32_t join) {
    bool behind = false;
    for (const Bits& nodes : reached)
      nodes.ForEach([&](std::uint32_t n) { behind = behind || n > join; });
    return behind;
  }

  // Finds nodes reached by lanes of only one side of a branch, before reconvergence or the next
  // iteration.
  void FindApart(std::uint32_t one, std::uint32_t other, std::uint32_t join) {
    Bits mine = Ahead(one, join), theirs = Ahead(other, join);
    Bits only_mine = mine;
    only_mine.RemoveAll(theirs);
    theirs.RemoveAll(mine);
    only_mine.ForEach([&](std::uint32_t x) { apart_[x].AddAll(theirs); });
  }
  Bits Ahead(std::uint32_t first, std::uint32_t end) const {
    Bits reached(node_count_);
    if (first != end) reached.Add(first);
    for (std::uint32_t n = first; n < node_count_; ++n) {
      if (!reached.Has(n)) continue;
      for (auto next : out_.schedule.nodes[n].successors)
        if (next > n && next != end) reached.Add(next);
    }
    return reached;
  }

  bool IsUniform(const Operand& operand) const {
    return operand.kind != Operand::Kind::kRegister || out_.registers[operand.index].uniform();
  }

  // Gives each lane its own value of a register written while waiting lanes need its old value.
  // Returns true if registers were added.
  bool ForceLanes() {
    bool changed = false;
    for (std::uint32_t n = 0; n < node_count_; ++n) {
      ForInstructions(n, [&](std::uint32_t i) {
        for (auto r : WrittenRegisters(body_.instructions[i])) {
          if (!out_.kept[n].Has(r) || out_.registers[r].spread == Spread::kLanes) continue;
          forced_.Add(r);
          changed = true;
        }
      });
    }
    return changed;
  }

  const ptx::Function& function_;
  const ptx::Body& body_;
  const WarpLayout& layout_;
  const FlowGraph graph_;
  std::size_t node_count_ = 0;
  std::vector<Bits> live_;   // At the start of each node.
  std::vector<Bits> apart_;  // Nodes where other lanes may be instead, by node.
  Bits forced_, own_masks_;
  WarpFunction out_;
};

class KernelPlanner {
 public:
  KernelPlanner(const ptx::Module& module, const KernelPlan& plan, const WarpLayout& layout,
                std::string* why)
      : module_(module), plan_(plan), layout_(layout), why_(*why) {}

  std::optional<WarpPlan> Plan() {
    std::size_t instructions = 0;
    for (const auto& function : plan_.functions) instructions += function.body->instructions.size();
    if (instructions > kMaxPlannedInstructions) return Refuse("it is too large");
    if (plan_.local_bytes > kMaxLocalBytes) return Refuse("it has too much local memory");
    FindCollectiveCallees();
    WarpPlan out;
    out.layout = layout_;
    for (std::size_t i = 0; i < plan_.functions.size(); ++i) {
      if (i != 0 && plan_.functions[i].facts.exits) return Refuse("a function called by it exits");
      FunctionPlanner planner(module_, plan_.functions[i], layout_);
      if (!planner.Plan(&why_) || !Check(planner, i, &out)) return std::nullopt;
      out.functions.push_back(planner.Extract());
    }
    return out;
  }

 private:
  std::nullopt_t Refuse(std::string_view why) {
    why_ = why;
    return std::nullopt;
  }

  // Finds functions containing or calling collectives of lanes or warps.
  void FindCollectiveCallees() {
    collective_.assign(plan_.functions.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < plan_.functions.size(); ++i) {
        if (collective_[i]) continue;
        const auto& facts = plan_.functions[i].facts;
        bool found = facts.has_collective;
        for (auto name : facts.callees) found = found || IsCollectiveFunction(name);
        if (facts.calls_indirectly)
          for (auto target : plan_.indirect_targets) found = found || collective_[target];
        collective_[i] = found;
        changed = changed || found;
      }
    }
  }
  bool IsCollectiveFunction(std::string_view name) const {
    for (std::size_t i = 0; i < plan_.functions.size(); ++i)
      if (module_.functions[plan_.functions[i].index].name == name) return collective_[i];
    return false;
  }
  bool CallsCollective(const Instruction& call) const {
    const bool results = !call.operands.empty() && call.operands[0].kind == Operand::Kind::kVector;
    if (call.operands.size() <= (results ? 1 : 0)) return false;  // The emitter rejects it.
    const Operand& callee = call.operands[results ? 1 : 0];
    if (callee.kind == Operand::Kind::kSymbol) return IsCollectiveFunction(callee.name);
    return std::any_of(plan_.indirect_targets.begin(), plan_.indirect_targets.end(),
                       [&](auto target) { return collective_[target]; });
  }

  bool Check(const FunctionPlanner& planner, std::size_t index, WarpPlan* out) {
    const auto& planned = plan_.functions[index];
    const auto& body = *planned.body;
    const auto& function = planner.function();
    bool ok = true;
    for (std::uint32_t n = 0; n < function.schedule.nodes.size() && ok; ++n) {
      planner.ForInstructions(n, [&](std::uint32_t i) {
        const auto& instruction = body.instructions[i];
        const bool together = function.Together(n) && planner.GuardIsUniform(instruction);
        if (!ok) return;
        if (IsWarpCollective(instruction) && !planner.GuardIsUniform(instruction)) {
          ok = false;
          why_ = Format("line {}: lanes may execute it separately", instruction.line);
          return;
        }
        if (IsMatrix(instruction)) {
          ok = false;
          why_ = Format("line {}: {}", instruction.line, instruction.Name());
          return;
        }
        const bool spins =
            std::binary_search(planned.spin_branches.begin(), planned.spin_branches.end(), i);
        const bool barrier = IsBlockBarrier(instruction) ||
                             (instruction.opcode == "call" && CallsCollective(instruction));
        if (spins || barrier) out->needs_fibers = true;
        if (!together && (barrier || (spins && planner.WaitersMayAct(n)))) {
          ok = false;
          why_ = Format("line {}: lanes of a warp may reach it separately", instruction.line);
        }
        if (!IsBlockBarrier(instruction) || instruction.opcode == "nanosleep") return;
        // Number and count must be equal in all lanes; the last operand of .red is a predicate.
        const std::size_t first = instruction.Has("red") ? 1 : 0;
        const std::size_t last = instruction.Has("red") ? 1 : 0;
        for (std::size_t k = first; k + last < instruction.operands.size(); ++k) {
          const Operand& operand = instruction.operands[k];
          if (operand.kind == Operand::Kind::kRegister &&
              !function.registers[operand.index].uniform()) {
            ok = false;
            why_ = Format("line {}: the barrier may differ from lane to lane", instruction.line);
          }
        }
      });
    }
    return ok && !planner.CollectivesMayMeet(&why_);
  }

  const ptx::Module& module_;
  const KernelPlan& plan_;
  const WarpLayout layout_;
  std::string& why_;
  std::vector<bool> collective_;
};

}  // namespace

bool IsWorthWarps(const KernelPlan& plan, const WarpPlan& warps) {
  if (plan.needs_fibers) return true;
  // PTX instructions per scattered local access. Searches and interpreters with a stack have one in
  // 14 to 24, and are twice as fast thread by thread. Kernels only reading tables write none.
  constexpr std::size_t kFew = 32;
  std::size_t instructions = 0, reads = 0, writes = 0;
  for (std::size_t i = 0; i < plan.functions.size(); ++i) {
    const auto& body = *plan.functions[i].body;
    instructions += body.instructions.size();
    for (const auto& instruction : body.instructions) {
      const bool reads_memory = instruction.opcode == "ld";
      if ((!reads_memory && instruction.opcode != "st") || !instruction.Has("local")) continue;
      const std::size_t at = reads_memory ? 1 : 0;
      if (instruction.operands.size() <= at || instruction.operands[at].elements.size() != 1)
        continue;
      const Operand& base = instruction.operands[at].elements[0];
      const bool apart = base.kind == Operand::Kind::kRegister &&
                         warps.functions[i].registers[base.index].spread == Spread::kLanes;
      if (apart) ++(reads_memory ? reads : writes);
    }
  }
  return reads == 0 || writes == 0 || (reads + writes) * kFew < instructions;
}

std::optional<WarpFunction> PlanWarpFunction(const ptx::Module& module,
                                             const PlannedFunction& planned,
                                             const WarpLayout& layout) {
  FunctionPlanner planner(module, planned, layout);
  std::string why;
  if (!planner.Plan(&why)) return std::nullopt;
  return planner.Extract();
}

std::optional<WarpPlan> PlanWarps(const ptx::Module& module, const KernelPlan& plan,
                                  const WarpLayout& layout, std::string* why) {
  return KernelPlanner(module, plan, layout, why).Plan();
}

}  // namespace cuspan::softgpu::analysis
