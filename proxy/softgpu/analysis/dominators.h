// The order of a function's blocks and which of them dominate others.
#pragma once

#include <cstdint>
#include <vector>

namespace cuspan::softgpu::analysis {

// Of the blocks that are reached from block 0; ptx::kNoIndex stands for what the others have not.
struct Dominators {
  using Lists = std::vector<std::vector<std::uint32_t>>;  // By block.

  Dominators() = default;
  // Of at least one block; none names a successor twice.
  explicit Dominators(const Lists& successors);

  // The nearest block that dominates both.
  std::uint32_t Meet(std::uint32_t x, std::uint32_t y) const;
  bool Dominates(std::uint32_t x, std::uint32_t y) const { return Meet(x, y) == x; }

  std::vector<std::uint32_t> order;      // Reverse postorder.
  std::vector<std::uint32_t> number;     // By block: its place there.
  std::vector<std::uint32_t> immediate;  // By block: its dominator; block 0's is itself.
  Lists predecessors;
};

}  // namespace cuspan::softgpu::analysis
