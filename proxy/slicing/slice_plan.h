// Computes the size of slices.
#pragma once

#include <cstdint>

namespace cuspan::slicing {

// More slices would take longer to submit than to compute.
inline constexpr std::uint64_t kMaxSlices = 4096;
// Maximum of a grid's x; a slice's grid is one-dimensional. (CUDA C++ Programming Guide, "Technical
// Specifications")
inline constexpr std::uint64_t kMaxSliceBlocks = 0x7fff'ffff;

struct SlicePlan {
  std::uint64_t slices = 1;  // 1: not divided.
  std::uint64_t blocks = 0;  // Blocks per slice; the last one may have fewer.
};

// Divides a launch of `blocks` blocks with the predicted time `nanoseconds`. Each slice takes about
// `limit` ns, or one wave if a wave takes longer. Slices are whole waves: others would leave SMs
// idle. `wave` is the number of concurrent blocks: the SMs times the blocks per SM. A launch of one
// wave is not divided: its blocks may wait for each other. Nor is a launch of more than kMaxBlocks
// blocks.
SlicePlan PlanSlices(std::uint64_t blocks, std::uint64_t nanoseconds, std::uint64_t wave,
                     std::uint64_t limit);

}  // namespace cuspan::slicing
