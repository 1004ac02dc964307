#include "proxy/kernel_class/run_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace cuspan::kernel_class {
namespace {

using ptx::kNoIndex;
using ptx::Operand;

// Control flow graph of instructions.
struct Flow {
  explicit Flow(const ptx::Body& body) : first(body.instructions.size() + 1, 0) {
    const auto count = static_cast<std::uint32_t>(body.instructions.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const ptx::Instruction& instruction = body.instructions[i];
      first[i] = static_cast<std::uint32_t>(to.size());
      const auto add = [&](std::uint32_t position) {
        if (position < count) to.push_back(position);
      };
      const bool branches = instruction.opcode == "bra" || instruction.opcode == "brx";
      if (branches) {
        for (const Operand& operand : instruction.operands) {
          if (operand.kind == Operand::Kind::kLabel) add(body.labels[operand.index].position);
          if (operand.kind == Operand::Kind::kTable)
            for (const std::uint32_t label : body.branch_tables[operand.index].labels)
              add(body.labels[label].position);
        }
      }
      if ((!branches && !Leaves(instruction)) || instruction.guard != kNoIndex) add(i + 1);
    }
    first[count] = static_cast<std::uint32_t>(to.size());
  }

  static bool Leaves(const ptx::Instruction& instruction) {
    return instruction.opcode == "ret" || instruction.opcode == "exit" ||
           instruction.opcode == "trap";
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(first.size() - 1); }

  std::vector<std::uint32_t> first;  // Index of an instruction's first successor in `to`.
  std::vector<std::uint32_t> to;
};

// Changes of registers between iterations of a loop, and conditions for leaving loops.
class Counters {
 public:
  explicit Counters(const ptx::Body& body) : body_(body) {
    for (std::uint32_t i = 0; i < body.instructions.size(); ++i) {
      const ptx::Instruction& instruction = body.instructions[i];
      const auto& operands = instruction.operands;
      if (operands.size() < 2 || operands[0].kind != Operand::Kind::kRegister) continue;
      const std::uint32_t to = operands[0].index;
      if (instruction.opcode == "setp") compares_[to] = i;
      if (operands[1].kind != Operand::Kind::kRegister) continue;
      const std::uint32_t from = operands[1].index;
      if (instruction.opcode == "mov") {
        // x' = x + 4; …; x = x'
        if (const auto sum = sums_.find(from); sum != sums_.end() && sum->second.of == to)
          NoteStep(to, sum->second.by);
      }
      if (operands.size() != 3 || operands[2].kind != Operand::Kind::kInteger) continue;
      const double by = ValueOf(operands[2]);
      if (instruction.opcode == "add") {
        sums_[to] = {from, by};
        NoteStep(to, by);
      }
      if (instruction.opcode == "shr" || instruction.opcode == "shl") shifted_.insert(from);
      if (instruction.opcode == "and" && by > 0 && by < kLoopWeight) masks_[to] = by;
    }
  }

  // Iterations of a loop left by the branch `leaves`, if it counts up to a constant.
  double IterationsOf(const ptx::Instruction& leaves) const {
    const auto compare = compares_.find(leaves.guard);
    if (compare == compares_.end()) return kLoopWeight;
    const auto& operands = body_.instructions[compare->second].operands;
    if (operands.size() != 3 || operands[1].kind != Operand::Kind::kRegister ||
        operands[2].kind != Operand::Kind::kInteger)
      return kLoopWeight;
    const std::uint32_t counter = operands[1].index;
    const auto step = steps_.find(counter);
    if (step == steps_.end()) return shifted_.contains(counter) ? kHalvings : kLoopWeight;
    const double limit = ValueOf(operands[2]);
    double iterations = kLoopWeight;
    if (step->second > 0 && limit > 0) {
      // Counting up from 0, or from a small start value, for example a thread index.
      iterations = limit / step->second;
    } else if (step->second > 0 && body_.instructions[compare->second].Has("lt")) {
      iterations = 1;
    } else if (const auto mask = masks_.find(counter); limit == 0 && mask != masks_.end()) {
      // Counting down from a small number: the remainder of an unrolled loop.
      iterations = mask->second / 2;
    }
    return std::clamp(iterations, 1.0, kLoopWeight);
  }

 private:
  // Iterations of halving a number down to 1, for example a block's threads.
  static constexpr double kHalvings = 8;
  struct Sum {
    std::uint32_t of;
    double by;
  };

  static double ValueOf(const Operand& number) {
    return static_cast<double>(static_cast<std::int64_t>(number.bits));
  }

  // The largest step counts: unrolled iterations take smaller ones in between.
  void NoteStep(std::uint32_t counter, double by) {
    double& known = steps_[counter];
    if (std::abs(by) > std::abs(known)) known = by;
  }

  const ptx::Body& body_;
  // Maps of a register to the last comparison, addition of a constant, and mask with this result;
  // and to its step between iterations.
  std::unordered_map<std::uint32_t, std::uint32_t> compares_;
  std::unordered_map<std::uint32_t, Sum> sums_;
  std::unordered_map<std::uint32_t, double> masks_;
  std::unordered_map<std::uint32_t, double> steps_;
  std::unordered_set<std::uint32_t> shifted_;
};

// Finds the loops of one nesting level: the strongly connected components, by Tarjan's algorithm
// without recursion. Then removes the edges back to the loop entries: the next search finds the
// inner loops.
class LoopSearch {
 public:
  LoopSearch(const ptx::Body& body, const Flow& flow)
      : body_(body),
        counters_(body),
        flow_(flow),
        cut_(flow.to.size(), false),
        loop_(flow.size(), kNoIndex) {}

  // Multiplies the weight of each instruction in a loop by the loop's; true if any loop was found.
  bool Deepen(std::vector<double>* weights) {
    states_.assign(flow_.size(), {});
    std::fill(loop_.begin(), loop_.end(), kNoIndex);
    order_ = 0;
    for (std::uint32_t i = 0; i < flow_.size(); ++i)
      if (states_[i].order == 0) Visit(i);
    std::unordered_map<std::uint32_t, double> iterations;  // Key: the loop's entry.
    for (std::uint32_t i = 0; i < flow_.size(); ++i) {
      if (loop_[i] == kNoIndex) continue;
      double& known = iterations.try_emplace(loop_[i], kLoopWeight).first->second;
      for (std::uint32_t edge = flow_.first[i]; edge < flow_.first[i + 1]; ++edge) {
        if (flow_.to[edge] == loop_[i]) cut_[edge] = true;
        if (loop_[flow_.to[edge]] != loop_[i])
          known = std::min(known, counters_.IterationsOf(body_.instructions[i]));
      }
    }
    for (std::uint32_t i = 0; i < flow_.size(); ++i)
      if (loop_[i] != kNoIndex) (*weights)[i] *= iterations[loop_[i]];
    return !iterations.empty();
  }

 private:
  struct State {
    std::uint32_t order = 0;  // 0: not visited.
    std::uint32_t low = 0;
    std::uint32_t next = 0;
    bool on_stack = false;
  };

  void Enter(std::uint32_t at) {
    State& state = states_[at];
    state.order = state.low = ++order_;
    state.next = flow_.first[at];
    state.on_stack = true;
    stack_.push_back(at);
    path_.push_back(at);
  }

  void Visit(std::uint32_t from) {
    Enter(from);
    while (!path_.empty()) {
      const std::uint32_t at = path_.back();
      State& state = states_[at];
      if (state.next < flow_.first[at + 1]) {
        const std::uint32_t edge = state.next++;
        const std::uint32_t to = flow_.to[edge];
        if (cut_[edge]) continue;
        if (states_[to].order == 0)
          Enter(to);
        else if (states_[to].on_stack)
          state.low = std::min(state.low, states_[to].order);
        continue;
      }
      path_.pop_back();
      if (!path_.empty())
        states_[path_.back()].low = std::min(states_[path_.back()].low, state.low);
      if (state.low == state.order) Close(at);
    }
  }

  // `entry` was visited first: for loops with one entry, the loop's entry.
  void Close(std::uint32_t entry) {
    bool loops = stack_.back() != entry;
    for (std::uint32_t edge = flow_.first[entry]; edge < flow_.first[entry + 1]; ++edge)
      loops = loops || (flow_.to[edge] == entry && !cut_[edge]);
    for (;;) {
      const std::uint32_t member = stack_.back();
      stack_.pop_back();
      states_[member].on_stack = false;
      if (loops) loop_[member] = entry;
      if (member == entry) return;
    }
  }

  const ptx::Body& body_;
  const Counters counters_;
  const Flow& flow_;
  std::vector<bool> cut_;            // One per edge.
  std::vector<std::uint32_t> loop_;  // Entry of each instruction's loop.
  std::vector<State> states_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::uint32_t> path_;
  std::uint32_t order_ = 0;
};

// Instructions reachable from `from` along `edges` without passing rare ones.
std::vector<bool> Reached(const std::vector<std::vector<std::uint32_t>>& edges,
                          std::vector<std::uint32_t> from, const std::vector<bool>& rare) {
  std::vector<bool> reached(edges.size(), false);
  while (!from.empty()) {
    const std::uint32_t at = from.back();
    from.pop_back();
    if (reached[at] || rare[at]) continue;
    reached[at] = true;
    from.insert(from.end(), edges[at].begin(), edges[at].end());
  }
  return reached;
}

// Instructions on a path from the start to an end without rare ones.
std::vector<bool> Ordinary(const ptx::Body& body, const Flow& flow, const std::vector<bool>& rare) {
  std::vector<std::vector<std::uint32_t>> forth(flow.size()), back(flow.size());
  std::vector<std::uint32_t> ends;
  for (std::uint32_t i = 0; i < flow.size(); ++i) {
    for (std::uint32_t edge = flow.first[i]; edge < flow.first[i + 1]; ++edge) {
      forth[i].push_back(flow.to[edge]);
      back[flow.to[edge]].push_back(i);
    }
    if (Flow::Leaves(body.instructions[i]) || flow.first[i] == flow.first[i + 1]) ends.push_back(i);
  }
  std::vector<bool> ordinary = Reached(forth, {0}, rare);
  const std::vector<bool> ending = Reached(back, std::move(ends), rare);
  for (std::size_t i = 0; i < ordinary.size(); ++i) ordinary[i] = ordinary[i] && ending[i];
  return ordinary;
}

}  // namespace

std::vector<double> RunWeights(const ptx::Body& body, const std::vector<bool>& rare) {
  const Flow flow(body);
  std::vector<double> weights(flow.size(), 1);
  LoopSearch search(body, flow);
  for (int depth = 0; depth < kMaxLoopDepth && search.Deepen(&weights); ++depth) {
  }
  if (std::find(rare.begin(), rare.end(), true) == rare.end()) return weights;
  const std::vector<bool> ordinary = Ordinary(body, flow, rare);
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!ordinary[i]) weights[i] = 0;
  return weights;
}

}  // namespace cuspan::kernel_class
