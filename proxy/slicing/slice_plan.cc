#include "proxy/slicing/slice_plan.h"

#include <algorithm>

#include "proxy/slicing/slice_ptx.h"

namespace cuspan::slicing {
namespace {

// Rounded up, without overflow.
std::uint64_t Quotient(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

}  // namespace

SlicePlan PlanSlices(std::uint64_t blocks, std::uint64_t nanoseconds, std::uint64_t wave,
                     std::uint64_t limit) {
  const SlicePlan whole{1, blocks};
  if (nanoseconds <= limit || blocks > kMaxBlocks) return whole;
  wave = std::clamp<std::uint64_t>(wave, 1, kMaxSliceBlocks);
  const std::uint64_t waves = Quotient(blocks, wave);
  if (waves <= 1) return whole;
  const std::uint64_t wave_time = Quotient(nanoseconds, waves);
  const std::uint64_t fitting = std::clamp<std::uint64_t>(
      std::max(limit / wave_time, Quotient(waves, kMaxSlices)), 1, kMaxSliceBlocks / wave);
  // The minimum number of slices, of about equal size.
  const std::uint64_t slices = Quotient(waves, fitting);
  const std::uint64_t size = Quotient(waves, slices) * wave;
  return {Quotient(blocks, size), size};
}

}  // namespace cuspan::slicing
