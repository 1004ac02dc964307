// How many blocks a slice has.
#pragma once

#include <cstdint>

namespace cuspan::slicing {

// A launch of more slices would have more to hand over than to compute.
inline constexpr std::uint64_t kMaxSlices = 4096;
// Of a grid's x, which is all that a slice's grid has. (CUDA C++ Programming Guide, "Technical
// Specifications")
inline constexpr std::uint64_t kMaxSliceBlocks = 0x7fff'ffff;

struct SlicePlan {
  std::uint64_t slices = 1;  // 1: the launch is left as it is.
  std::uint64_t blocks = 0;  // Of each slice; the last one may have fewer.
};

// The slices of a launch of `blocks` blocks that is predicted to take `nanoseconds`, so that each
// takes about `limit` nanoseconds, or one wave if that takes longer: slices are whole waves, as
// others would leave SMs idle. `wave` is the number of blocks that run at once: the SMs times the
// blocks that one has room for; a launch of one wave stays whole, since its blocks may wait for
// each other. So does one of more than kMaxBlocks blocks.
SlicePlan PlanSlices(std::uint64_t blocks, std::uint64_t nanoseconds, std::uint64_t wave,
                     std::uint64_t limit);

}  // namespace cuspan::slicing
