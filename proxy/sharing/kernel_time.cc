#include "proxy/sharing/kernel_time.h"

#include <algorithm>
#include <bit>

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kAllMeasured = 8;
// An older sample counts for so much of the next.
constexpr double kForget = 0.9;

}  // namespace

bool KernelTime::WantsSample() {
  ++launches_;
  // Each is two events beside a launch of a few microseconds: of many launches few. Those that ran
  // beside others could not be measured.
  if (samples_ < kAllMeasured && (launches_ <= 8 * kAllMeasured || launches_ % 16 == 0))
    return true;
  return std::has_single_bit(launches_) || launches_ % 1024 == 0;
}

void KernelTime::Add(std::uint64_t blocks, double nanoseconds) {
  const MutexLock lock(mutex_);
  if (!warm_) {
    warm_ = true;
    return;
  }
  const double x = static_cast<double>(blocks);
  count_ = count_ * kForget + 1;
  blocks_ = blocks_ * kForget + x;
  squares_ = squares_ * kForget + x * x;
  time_ = time_ * kForget + nanoseconds;
  products_ = products_ * kForget + x * nanoseconds;
}

std::optional<double> KernelTime::Predict(std::uint64_t blocks) const {
  const MutexLock lock(mutex_);
  if (count_ == 0) return std::nullopt;
  const double mean = time_ / count_;
  const double spread = squares_ - blocks_ * blocks_ / count_;
  // Of launches that are all of one size nothing can be said but the mean.
  if (spread <= squares_ * 1e-9) return mean;
  const double slope = std::max((products_ - blocks_ * time_ / count_) / spread, 0.0);
  return std::max(mean + slope * (static_cast<double>(blocks) - blocks_ / count_), 0.0);
}

}  // namespace cuspan::proxy
