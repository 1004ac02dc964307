// Order and dominance of a function's blocks.
#pragma once

#include <cstdint>
#include <vector>

namespace cuspan::softgpu::analysis {

// Dominators of the blocks reachable from block 0. Values of unreachable blocks are ptx::kNoIndex.
struct Dominators {
  using Lists = std::vector<std::vector<std::uint32_t>>;  // Indexed by block.

  Dominators() = default;
  // Requires at least one block, and no successor twice in one list.
  explicit Dominators(const Lists& successors);

  // Nearest common dominator.
  std::uint32_t Meet(std::uint32_t x, std::uint32_t y) const;
  bool Dominates(std::uint32_t x, std::uint32_t y) const { return Meet(x, y) == x; }

  std::vector<std::uint32_t> order;      // Reverse postorder.
  std::vector<std::uint32_t> number;     // Position of each block in `order`.
  std::vector<std::uint32_t> immediate;  // Immediate dominator of each block; block 0's is itself.
  Lists predecessors;
};

}  // namespace cuspan::softgpu::analysis
