#include "proxy/softgpu/analysis/reconvergence.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "proxy/softgpu/analysis/bits.h"
#include "proxy/softgpu/analysis/cfg.h"
#include "proxy/softgpu/analysis/facts.h"
#include "proxy/softgpu/analysis/shared_access.h"
#include "proxy/softgpu/analysis/warp_plan.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::Instruction;
using ptx::kNoIndex;
using ptx::Operand;
using Side = ReconvergencePoint::Side;

// Limits of the analysis tables. Beyond them, lanes meet at each access.
constexpr std::size_t kMaxInstructions = 60000, kMaxAccesses = 4000;
// The positions of each function start at a multiple of this.
constexpr std::uint64_t kPlacesOfFunction = std::uint64_t{1} << 32;

bool IsMatrixCollective(const Instruction& i) {
  const bool moves = i.Has("load") || i.Has("store");
  return i.opcode == "mma" || i.opcode == "movmatrix" || (i.opcode == "wmma" && !moves);
}

// True if all unfinished lanes of the warp wait for each other at this instruction.
bool BringsAllTogether(const Instruction& i) {
  if (i.guard != kNoIndex) return false;
  if (IsMatrixCollective(i)) return true;
  if (IsWarpCollective(i)) {
    const std::size_t at = MembersAt(i);
    return at < i.operands.size() && i.operands[at].kind == Operand::Kind::kInteger &&
           static_cast<std::uint32_t>(i.operands[at].bits) == 0xffffffff;
  }
  return (i.opcode == "bar" || i.opcode == "barrier") && !i.Has("cluster") && !i.Has("arrive");
}

// Access standing for everything done by a callee, or, inside a function, by its callers.
SharedAccess AnyAccess(std::uint32_t instruction) {
  SharedAccess any;
  any.instruction = instruction;
  any.memory = SharedMemory::kEither;
  any.reads = any.writes = true;
  return any;
}

// Accesses of a lane since all lanes were together: `now` in this iteration of the enclosing loops,
// `old` in earlier ones.
struct Pending {
  Bits now, old;
  explicit Pending(std::size_t accesses) : now(accesses), old(accesses) {}
  void Clear() {
    now.Clear();
    old.Clear();
  }
  bool Add(const Pending& other) {
    const bool changed = now.AddAll(other.now);
    return old.AddAll(other.old) || changed;
  }
};

class FunctionReconvergence {
 public:
  // `calls`: calls of functions making exchange accesses.
  FunctionReconvergence(const ptx::Module& module, const PlannedFunction& planned, bool has_shared,
                        const std::vector<std::uint32_t>& calls, std::uint64_t first_place)
      : module_(module),
        planned_(planned),
        body_(*planned.body),
        has_shared_(has_shared),
        calls_(calls),
        first_place_(first_place),
        is_kernel_(module.functions[planned.index].entry),
        graph_(BuildFlowGraph(body_)) {}

  std::vector<ReconvergencePoint> Plan(const WarpLayout& layout) {
    CollectAccesses({});
    if (accesses_.empty() || !AnyConflict()) return {};
    std::optional<WarpFunction> warp;
    if (body_.instructions.size() <= kMaxInstructions && accesses_.size() <= kMaxAccesses)
      warp = PlanWarpFunction(module_, planned_, layout);
    if (!warp) return EverywherePoints();
    warp_ = std::move(*warp);
    CollectAccesses({warp_.registers, layout});
    Prepare();
    ScanTo(false);
    MarkUnevenLoops();
    while (Flow(), ScanTo(true)) MarkUnevenLoops();
    return Points();
  }

 private:
  struct Loop {
    std::uint32_t header, end;  // Nodes; all between them belong to the loop.
    bool meets = false;         // Lanes wait for each other before each iteration.
    bool Has(std::uint32_t node) const { return node >= header && node <= end; }
  };

  void CollectAccesses(const RegisterShapes& registers) {
    accesses_ = FindSharedAccesses(module_, body_, is_kernel_, has_shared_, registers);
    const std::size_t own = accesses_.size();
    for (const auto call : calls_) accesses_.push_back(AnyAccess(call));
    std::inplace_merge(
        accesses_.begin(), accesses_.begin() + static_cast<std::ptrdiff_t>(own), accesses_.end(),
        [](const SharedAccess& x, const SharedAccess& y) { return x.instruction < y.instruction; });
    // Callers may have made any access before.
    if (!is_kernel_) accesses_.push_back(AnyAccess(kNoIndex));
  }

  bool Conflict(const SharedAccess& x, const SharedAccess& y, const Between& between) const {
    return MayConflict(module_, body_, x, y, between);
  }
  bool AnyConflict() const {
    if (accesses_.size() > kMaxAccesses) return true;
    for (const auto& x : accesses_)
      for (const auto& y : accesses_)
        if (Conflict(x, y, {})) return true;
    return false;
  }

  // Points without a schedule: before each access, in textual order.
  std::vector<ReconvergencePoint> EverywherePoints() const {
    std::vector<ReconvergencePoint> points;
    const std::unordered_set<std::uint32_t> calls(calls_.begin(), calls_.end());
    for (const auto& access : accesses_)
      if (access.instruction != kNoIndex && calls.count(access.instruction) == 0)
        points.push_back({access.instruction, Side::kBefore, first_place_ + access.instruction});
    for (const auto& block : graph_.blocks) {
      const std::uint32_t last = block.end - 1;
      const bool back = IsBranch(body_.instructions[last]) &&
                        std::any_of(block.successors.begin(), block.successors.end(),
                                    [&](auto to) { return graph_.blocks[to].begin < block.end; });
      const bool indexed = body_.instructions[last].opcode == "brx";
      if (back)
        points.push_back({last, indexed ? Side::kBefore : Side::kTaken, first_place_ + last});
    }
    return Sorted(std::move(points));
  }

  static std::vector<ReconvergencePoint> Sorted(std::vector<ReconvergencePoint> points) {
    std::sort(points.begin(), points.end(), [](const auto& x, const auto& y) {
      return std::tuple(x.instruction, x.side, x.place) <
             std::tuple(y.instruction, y.side, y.place);
    });
    return points;
  }

  template <typename Visit>
  void ForInstructions(std::uint32_t node, Visit visit) const {
    const std::uint32_t block = warp_.schedule.nodes[node].block;
    if (block == kNoIndex) return;
    for (std::uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) visit(i);
  }

  void Prepare() {
    const auto& nodes = warp_.schedule.nodes;
    const std::size_t count = nodes.size();
    before_.assign(body_.instructions.size(), false);
    access_at_.assign(body_.instructions.size(), kNoIndex);
    node_of_access_.assign(accesses_.size(), kNoIndex);
    std::vector<Bits> own(count, Bits(accesses_.size()));
    for (std::uint32_t a = 0; a < accesses_.size(); ++a) {
      const std::uint32_t i = accesses_[a].instruction;
      if (i == kNoIndex) continue;
      access_at_[i] = a;
      const std::uint32_t node = warp_.schedule.node_of[graph_.block_of[i]];
      node_of_access_[a] = node;
      if (node != kNoIndex) own[node].Add(a);
    }
    // Lanes waiting at node y in code for a warp do not wait here. Accesses of other lanes at node
    // n are therefore pending at y.
    beside_.assign(count, Bits(accesses_.size()));
    for (std::uint32_t n = 0; n < count; ++n) {
      if (own[n].empty()) continue;
      warp_.waiting[n].ForEach([&](std::uint32_t y) {
        if (y < count) beside_[y].AddAll(own[n]);
      });
    }
    for (std::uint32_t n = 0; n < count; ++n)
      if (nodes[n].block == kNoIndex && n != warp_.schedule.return_node)
        loops_.push_back({nodes[n].successors[0], n});
    // Inner loops first.
    std::stable_sort(loops_.begin(), loops_.end(), [](const Loop& x, const Loop& y) {
      return x.end - x.header < y.end - y.header;
    });
    FindVarying();
    in_.assign(count, Pending(accesses_.size()));
    around_.assign(loops_.size(), Pending(accesses_.size()));
  }

  // Finds for each loop the accesses with addresses changing between iterations.
  void FindVarying() {
    std::vector<std::vector<std::uint32_t>> written_in(body_.registers.size());
    for (std::uint32_t n = 0; n < warp_.schedule.nodes.size(); ++n)
      ForInstructions(n, [&](std::uint32_t i) {
        for (const auto r : WrittenRegisters(body_.instructions[i])) written_in[r].push_back(n);
      });
    varying_.assign(loops_.size(), Bits(accesses_.size()));
    for (std::size_t l = 0; l < loops_.size(); ++l) {
      for (std::uint32_t a = 0; a < accesses_.size(); ++a) {
        for (const auto& [term, factor] : accesses_[a].address.terms) {
          if (term >= written_in.size()) continue;
          const auto& nodes = written_in[term];
          if (std::any_of(nodes.begin(), nodes.end(), [&](auto n) { return loops_[l].Has(n); }))
            varying_[l].Add(a);
        }
      }
    }
  }

  // Facts about the path from access `before`, pending in this iteration, to `after`.
  Between BetweenThem(std::uint32_t before, std::uint32_t after) const {
    const std::uint32_t from = node_of_access_[before], to = node_of_access_[after];
    Between between{true, from == to};
    // The address changes in a loop left in between.
    for (std::size_t l = 0; l < loops_.size(); ++l)
      if (varying_[l].Has(before) && loops_[l].Has(from) && !loops_[l].Has(to))
        between.same_iteration = false;
    for (const auto access : {before, after}) {
      const std::uint32_t i = accesses_[access].instruction;
      if (i == kNoIndex || body_.instructions[i].guard != kNoIndex) between.same_lanes = false;
    }
    return between;
  }

  // Advances `pending` from the start of `node` to its end. Calls found(instruction, access,
  // pending) before each access is added.
  template <typename Found>
  void Pass(std::uint32_t node, Pending* pending, Found found) {
    ForInstructions(node, [&](std::uint32_t i) {
      if (before_[i] || BringsAllTogether(body_.instructions[i])) pending->Clear();
      const std::uint32_t a = access_at_[i];
      if (a == kNoIndex) return;
      found(i, a, pending);
      pending->now.Add(a);
    });
  }

  // Adds `pending` to the later successors of `node`.
  bool Send(std::uint32_t node, const Pending& pending) {
    bool changed = false;
    for (const auto next : warp_.schedule.nodes[node].successors)
      if (next > node) changed = in_[next].Add(pending) || changed;
    return changed;
  }

  // Computes the accesses carried into the next iterations, with the present points.
  void Flow() {
    for (bool changed = true; changed;) {
      changed = false;
      Begin();
      for (std::uint32_t n = 0; n < in_.size(); ++n) {
        Pending pending = in_[n];
        Pass(n, &pending, [](auto...) {});
        Send(n, pending);
        for (std::size_t l = 0; l < loops_.size(); ++l) {
          if (loops_[l].end != n) continue;
          Pending round(accesses_.size());
          if (!loops_[l].meets) {
            round = pending;
            Bits moved = pending.now;
            moved.KeepOnly(varying_[l]);
            round.now.RemoveAll(moved);
            round.old.AddAll(moved);
          }
          changed = around_[l].Add(round) || changed;
        }
      }
    }
  }
  void Begin() {
    for (auto& pending : in_) pending.Clear();
    for (std::uint32_t n = 0; n < in_.size(); ++n) in_[n].now.AddAll(beside_[n]);
    if (!is_kernel_) in_[0].now.Add(accesses_.size() - 1);
    for (std::size_t l = 0; l < loops_.size(); ++l) in_[loops_[l].header].Add(around_[l]);
  }

  // Places points; returns true if points were added. `round`: includes accesses of earlier
  // iterations.
  bool ScanTo(bool round) {
    bool more = false;
    Begin();
    for (std::uint32_t n = 0; n < in_.size(); ++n) {
      Pending pending = in_[n];
      Pass(n, &pending, [&](std::uint32_t i, std::uint32_t a, Pending* at) {
        if (IsCall(i)) return;  // The callee has its own points.
        bool conflicts = false;
        at->now.ForEach([&](std::uint32_t before) {
          conflicts =
              conflicts || Conflict(accesses_[before], accesses_[a], BetweenThem(before, a));
        });
        // Conflicts only with an earlier iteration: lanes wait for each other at the end of the
        // loop instead.
        at->old.ForEach([&](std::uint32_t before) {
          if (conflicts || !round || !Conflict(accesses_[before], accesses_[a], {})) return;
          Loop* const loop = LoopOf(node_of_access_[before], n);
          if (loop == nullptr) {
            conflicts = true;
          } else if (!loop->meets) {
            loop->meets = more = true;
          }
        });
        if (!conflicts) return;
        before_[i] = more = true;
        at->Clear();
      });
      Send(n, pending);
    }
    if (more)
      for (auto& round_loop : around_) round_loop.Clear();
    return more;
  }
  bool IsCall(std::uint32_t i) const {
    return std::find(calls_.begin(), calls_.end(), i) != calls_.end();
  }

  // Innermost loop containing both nodes.
  Loop* LoopOf(std::uint32_t x, std::uint32_t y) {
    for (auto& loop : loops_)
      if (loop.Has(x) && loop.Has(y)) return &loop;
    return nullptr;
  }

  // Lanes meeting inside a loop must be in the same iteration.
  void MarkUnevenLoops() {
    for (auto& loop : loops_) {
      if (loop.meets) continue;
      bool uneven = false, points = false;
      for (std::uint32_t n = loop.header; n <= loop.end; ++n) {
        ForInstructions(n, [&](std::uint32_t i) { points = points || before_[i] || IsCall(i); });
        warp_.waiting[n].ForEach([&](std::uint32_t y) { uneven = uneven || loop.Has(y); });
      }
      for (const auto& inner : loops_) points = points || (inner.meets && loop.Has(inner.end));
      loop.meets = uneven && points;
    }
  }

  std::vector<ReconvergencePoint> Points() const {
    std::vector<ReconvergencePoint> points;
    const auto& nodes = warp_.schedule.nodes;
    std::vector<std::uint64_t> places;
    std::uint64_t next = first_place_;
    for (const auto& node : nodes) {
      places.push_back(next);
      if (node.block == kNoIndex) {
        ++next;
      } else {
        next += graph_.blocks[node.block].end - graph_.blocks[node.block].begin;
      }
    }
    bool any = !calls_.empty() || std::find(before_.begin(), before_.end(), true) != before_.end();
    for (const auto& loop : loops_) any = any || loop.meets;
    if (!any) return {};
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].block == kNoIndex) continue;
      const auto& block = graph_.blocks[nodes[n].block];
      ForInstructions(n, [&](std::uint32_t i) {
        // activemask must not see only the lanes arriving first.
        if (before_[i] || body_.instructions[i].opcode == "activemask")
          points.push_back({i, Side::kBefore, places[n] + i - block.begin});
      });
      for (const auto& loop : loops_) {
        const std::uint32_t header = nodes[loop.header].block;
        const bool back = std::find(block.successors.begin(), block.successors.end(), header) !=
                          block.successors.end();
        if (loop.meets && loop.Has(n) && back)
          AddRound(block, graph_.blocks[header].begin, places[loop.end], &points);
      }
    }
    return Sorted(std::move(points));
  }

  // Adds the point on the edge from `block` back to instruction `header`, the start of the loop.
  void AddRound(const Block& block, std::uint32_t header, std::uint64_t place,
                std::vector<ReconvergencePoint>* points) const {
    const std::uint32_t last = block.end - 1;
    const Instruction& instruction = body_.instructions[last];
    if (!IsBranch(instruction) && !LeavesFunction(instruction)) {
      points->push_back({last, Side::kAfter, place});
      return;
    }
    const bool taken = instruction.opcode == "bra" && !instruction.operands.empty() &&
                       instruction.operands[0].kind == Operand::Kind::kLabel &&
                       body_.labels[instruction.operands[0].index].position == header;
    points->push_back({last, taken ? Side::kTaken : Side::kBefore, place});
  }

  const ptx::Module& module_;
  const PlannedFunction& planned_;
  const ptx::Body& body_;
  const bool has_shared_;
  const std::vector<std::uint32_t>& calls_;
  const std::uint64_t first_place_;
  const bool is_kernel_;
  const FlowGraph graph_;
  WarpFunction warp_;
  std::vector<SharedAccess> accesses_;
  std::vector<std::uint32_t> access_at_;       // Indexed by instruction, or kNoIndex.
  std::vector<std::uint32_t> node_of_access_;  // Indexed by access.
  std::vector<bool> before_;                   // True for instructions with a point before them.
  std::vector<Loop> loops_;
  std::vector<Bits> varying_;    // Accesses, by loop.
  std::vector<Bits> beside_;     // Accesses of lanes at other nodes, by node.
  std::vector<Pending> in_;      // Indexed by node.
  std::vector<Pending> around_;  // Carried into the next iteration, by loop.
};

class KernelReconvergence {
 public:
  KernelReconvergence(const ptx::Module& module, const KernelPlan& plan)
      : module_(module), plan_(plan), has_shared_(!plan.shared_offsets.empty()) {}

  std::vector<std::vector<ReconvergencePoint>> Plan() {
    std::vector<std::vector<ReconvergencePoint>> points(plan_.functions.size());
    if (!FindExchanging()) return points;
    Rank(0);
    for (const auto target : plan_.indirect_targets) Rank(target);
    const WarpLayout layout = LayoutOfKernel();
    for (std::size_t f = 0; f < plan_.functions.size(); ++f) {
      const auto calls = CallsOf(f);
      FunctionReconvergence function(module_, plan_.functions[f], has_shared_, calls,
                                     rank_[f] * kPlacesOfFunction);
      points[f] = function.Plan(layout);
    }
    return points;
  }

 private:
  std::string_view NameOf(std::size_t f) const {
    return module_.functions[plan_.functions[f].index].name;
  }
  std::optional<std::size_t> Find(std::string_view name) const {
    for (std::size_t f = 0; f < plan_.functions.size(); ++f)
      if (NameOf(f) == name) return f;
    return std::nullopt;
  }

  // Finds functions making such accesses, themselves or through callees. Returns false if none
  // writes.
  bool FindExchanging() {
    bool writes = false;
    for (const auto& planned : plan_.functions) {
      const auto accesses = FindSharedAccesses(
          module_, *planned.body, module_.functions[planned.index].entry, has_shared_, {});
      exchanging_.push_back(!accesses.empty());
      for (const auto& access : accesses) writes = writes || access.writes;
    }
    for (bool changed = writes; changed;) {
      changed = false;
      for (std::size_t f = 0; f < plan_.functions.size(); ++f) {
        if (exchanging_[f] || !CallsExchanging(plan_.functions[f].facts)) continue;
        exchanging_[f] = changed = true;
      }
    }
    return writes;
  }
  bool CallsExchanging(const BodyFacts& facts) const {
    bool found = facts.calls_indirectly && TargetsExchange();
    for (const auto name : facts.callees) found = found || IsExchanging(name);
    return found;
  }
  bool IsExchanging(std::string_view name) const {
    const auto f = Find(name);
    return f && exchanging_[*f];
  }
  bool TargetsExchange() const {
    return std::any_of(plan_.indirect_targets.begin(), plan_.indirect_targets.end(),
                       [&](auto target) { return exchanging_[target]; });
  }

  std::vector<std::uint32_t> CallsOf(std::size_t f) const {
    std::vector<std::uint32_t> calls;
    const auto& instructions = plan_.functions[f].body->instructions;
    for (std::uint32_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].opcode != "call") continue;
      const auto callee = CalleeOf(instructions[i]);
      if (callee.empty() ? TargetsExchange() : IsExchanging(callee)) calls.push_back(i);
    }
    return calls;
  }

  // Gives callees lower positions than their callers.
  void Rank(std::size_t f) {
    if (rank_.empty()) rank_.assign(plan_.functions.size(), 0);
    if (visited_.empty()) visited_.assign(plan_.functions.size(), false);
    if (visited_[f]) return;
    visited_[f] = true;
    for (const auto name : plan_.functions[f].facts.callees)
      if (const auto callee = Find(name)) Rank(*callee);
    if (plan_.functions[f].facts.calls_indirectly)
      for (const auto target : plan_.indirect_targets) Rank(target);
    rank_[f] = ranked_++;
  }

  // Blocks of all shapes share the code. If a kernel uses only the x index of threads, threads of a
  // warp with equal x behave equally.
  WarpLayout LayoutOfKernel() const {
    const auto& required = module_.functions[plan_.functions[0].index].required_ntid;
    if (required[0] != 0) return LayoutOf(required[0], required[1], required[2]);
    for (const auto& function : plan_.functions)
      for (const auto& instruction : function.body->instructions)
        for (const auto& operand : instruction.operands)
          if (TellsLanesApart(operand)) return {1, false, false};
    return {32, false, false};
  }
  static bool TellsLanesApart(const Operand& operand) {
    using ptx::SpecialRegister;
    if (std::any_of(operand.elements.begin(), operand.elements.end(), TellsLanesApart)) return true;
    if (operand.kind != Operand::Kind::kSpecial) return false;
    switch (operand.special) {
      case SpecialRegister::kTidY:
      case SpecialRegister::kTidZ:
      case SpecialRegister::kLaneid:
      case SpecialRegister::kLanemaskEq:
      case SpecialRegister::kLanemaskLe:
      case SpecialRegister::kLanemaskLt:
      case SpecialRegister::kLanemaskGe:
      case SpecialRegister::kLanemaskGt:
        return true;
      default:
        return false;
    }
  }

  const ptx::Module& module_;
  const KernelPlan& plan_;
  const bool has_shared_;
  std::vector<bool> exchanging_, visited_;  // Indexed by function of the plan.
  std::vector<std::uint64_t> rank_;
  std::uint64_t ranked_ = 0;
};

}  // namespace

std::vector<std::vector<ReconvergencePoint>> PlanReconvergence(const ptx::Module& module,
                                                               const KernelPlan& plan) {
  return KernelReconvergence(module, plan).Plan();
}

}  // namespace cuspan::softgpu::analysis
