#include "proxy/softgpu/rt/pace.h"

#include <algorithm>

namespace cuspan::softgpu {

std::uint64_t Pace::UnitsIn(std::chrono::duration<double> time) const {
  return static_cast<std::uint64_t>(time.count() * rate_);
}

std::chrono::steady_clock::time_point Pace::Reserve(std::uint64_t units) {
  const auto now = std::chrono::steady_clock::now();
  if (!limited()) return now;
  const std::chrono::duration<double> needed(static_cast<double>(units) / rate_);
  std::lock_guard lock(mutex_);
  // Rounded up: a unit may take less than a nanosecond.
  free_from_ =
      std::max(free_from_, now) + std::chrono::ceil<std::chrono::steady_clock::duration>(needed);
  return free_from_;
}

}  // namespace cuspan::softgpu
