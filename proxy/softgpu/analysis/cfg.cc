#include "proxy/softgpu/analysis/cfg.h"

#include <algorithm>

namespace cuspan::softgpu::analysis {
namespace {

using ptx::kNoIndex;
using ptx::Operand;

// Visits the branch targets of `instruction`, without the fall-through.
template <typename Visit>
void VisitTargets(const ptx::Body& body, const ptx::Instruction& instruction, Visit visit) {
  for (const auto& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::kLabel) visit(body.labels[operand.index].position);
    if (operand.kind == Operand::Kind::kTable)
      for (auto label : body.branch_tables[operand.index].labels)
        visit(body.labels[label].position);
  }
}

// Tarjan's algorithm without recursion: bodies have any length.
class CycleFinder {
 public:
  explicit CycleFinder(FlowGraph* graph) : graph_(*graph), state_(graph->blocks.size()) {}

  void Run() {
    for (std::uint32_t block = 0; block < state_.size(); ++block)
      if (state_[block].order == 0) Visit(block);
  }

 private:
  struct State {
    std::uint32_t order = 0;  // 0: not visited.
    std::uint32_t low = 0;
    std::uint32_t next_successor = 0;
    bool on_stack = false;
  };

  void Visit(std::uint32_t root) {
    Enter(root);
    while (!path_.empty()) {
      const std::uint32_t block = path_.back();
      State& state = state_[block];
      const auto& successors = graph_.blocks[block].successors;
      if (state.next_successor < successors.size()) {
        const std::uint32_t next = successors[state.next_successor++];
        if (state_[next].order == 0) {
          Enter(next);
        } else if (state_[next].on_stack) {
          state.low = std::min(state.low, state_[next].order);
        }
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) state_[path_.back()].low = std::min(state_[path_.back()].low, state.low);
      if (state.low == state.order) CloseComponent(block);
    }
  }

  void Enter(std::uint32_t block) {
    state_[block].order = state_[block].low = ++order_;
    state_[block].on_stack = true;
    stack_.push_back(block);
    path_.push_back(block);
  }

  void CloseComponent(std::uint32_t root) {
    const auto& successors = graph_.blocks[root].successors;
    const bool cyclic = stack_.back() != root ||
                        std::find(successors.begin(), successors.end(), root) != successors.end();
    const std::uint32_t cycle = cyclic ? graph_.cycle_count++ : kNoIndex;
    for (;;) {
      const std::uint32_t block = stack_.back();
      stack_.pop_back();
      state_[block].on_stack = false;
      graph_.blocks[block].cycle = cycle;
      if (block == root) return;
    }
  }

  FlowGraph& graph_;
  std::vector<State> state_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::uint32_t> path_;
  std::uint32_t order_ = 0;
};

}  // namespace

bool LeavesFunction(const ptx::Instruction& instruction) {
  return instruction.opcode == "ret" || instruction.opcode == "exit" ||
         instruction.opcode == "trap" || instruction.opcode == "brkpt";
}

bool IsBranch(const ptx::Instruction& instruction) {
  return instruction.opcode == "bra" || instruction.opcode == "brx";
}

FlowGraph BuildFlowGraph(const ptx::Body& body) {
  FlowGraph graph;
  const auto count = static_cast<std::uint32_t>(body.instructions.size());
  if (count == 0) return graph;
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& instruction = body.instructions[i];
    if (!IsBranch(instruction) && !LeavesFunction(instruction)) continue;
    leader[i + 1] = true;
    VisitTargets(body, instruction, [&](std::uint32_t position) { leader[position] = true; });
  }
  graph.block_of.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (leader[i]) graph.blocks.push_back({i, i, {}, kNoIndex});
    graph.blocks.back().end = i + 1;
    graph.block_of[i] = static_cast<std::uint32_t>(graph.blocks.size() - 1);
  }
  for (auto& block : graph.blocks) {
    const auto& last = body.instructions[block.end - 1];
    const auto add = [&](std::uint32_t position) {
      if (position < count) block.successors.push_back(graph.block_of[position]);
    };
    if (IsBranch(last)) VisitTargets(body, last, add);
    if ((!IsBranch(last) && !LeavesFunction(last)) || last.guard != kNoIndex) add(block.end);
  }
  CycleFinder(&graph).Run();
  return graph;
}

}  // namespace cuspan::softgpu::analysis
