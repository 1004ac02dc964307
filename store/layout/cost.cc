#include "store/layout/cost.h"

#include <cmath>
#include <limits>

#include "store/layout/geometry.h"

namespace cuspan::store {
namespace {

// `number` is whole and not negative.
std::uint64_t Saturated(double number) {
  constexpr double kTwoTo64 = 18446744073709551616.0;
  return number < kTwoTo64 ? static_cast<std::uint64_t>(number)
                           : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::uint64_t SingleReadsLikeAnExtent(double reads_per_second, double bytes_per_second) {
  constexpr auto kExtent = static_cast<double>(kExtentBytes);
  return Saturated(std::floor(reads_per_second * kExtent / bytes_per_second));
}

std::uint64_t RequestsUnderWay(double reads_per_second, std::chrono::nanoseconds latency) {
  // Products of whole numbers below 2^53 are exact, so a whole result is not rounded up.
  return Saturated(std::ceil(reads_per_second * static_cast<double>(latency.count()) / 1e9));
}

}  // namespace cuspan::store
