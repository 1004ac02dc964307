#include "proxy/objects/kernel_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace cuspan::proxy {
namespace {

constexpr std::uint64_t kAllMeasured = 8;
// Weight of a sample relative to the next one.
constexpr double kForget = 0.9;
// Weight of a restored result in samples. After two samples of this run, it counts for a tenth.
constexpr double kRestored = 0.25;
// Relative rounding error of sums written as text, or added in another order.
constexpr double kRounding = 1e-6;

}  // namespace

bool KernelTimeSums::sound() const {
  for (const double sum : {count, blocks, squares, time, products})
    if (!std::isfinite(sum) || sum < 0) return false;
  // Cauchy-Schwarz inequality; each sample has at least one block.
  return count > 0 && count <= 1 / (1 - kForget) * (1 + kRounding) &&
         blocks >= count * (1 - kRounding) && squares * count >= blocks * blocks * (1 - kRounding);
}

// --- Errors.

void PredictionErrors::Add(double error) {
  const auto step = std::lower_bound(kEnds.begin(), kEnds.end(), error) - kEnds.begin();
  ++counts[static_cast<std::size_t>(step)];
}

void PredictionErrors::Add(const PredictionErrors& more) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += more.counts[i];
}

std::uint64_t PredictionErrors::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::optional<double> PredictionErrors::Median() const {
  double left = static_cast<double>(count()) / 2;
  if (left == 0) return std::nullopt;
  double begin = 0;
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    if (left <= counts[i]) return begin + (kEnds[i] - begin) * left / counts[i];
    left -= counts[i];
    begin = kEnds[i];
  }
  return begin;
}

// --- Times.

bool KernelTime::WantsSample() {
  ++launches_;
  // A sample costs two events for a launch of a few microseconds, so few of many launches are
  // measured. Launches beside others could not be measured.
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
  if (const std::optional<double> predicted = PredictLocked(x); predicted && nanoseconds > 0)
    errors_.Add(std::abs(*predicted / nanoseconds - 1));
  measured_ = true;
  sums_.count = sums_.count * kForget + 1;
  sums_.blocks = sums_.blocks * kForget + x;
  sums_.squares = sums_.squares * kForget + x * x;
  sums_.time = sums_.time * kForget + nanoseconds;
  sums_.products = sums_.products * kForget + x * nanoseconds;
}

std::optional<double> KernelTime::Predict(std::uint64_t blocks) const {
  const MutexLock lock(mutex_);
  return PredictLocked(static_cast<double>(blocks));
}

std::optional<double> KernelTime::PredictLocked(double blocks) const {
  if (sums_.count == 0) return std::nullopt;
  const double mean = sums_.time / sums_.count;
  const double spread = sums_.squares - sums_.blocks * sums_.blocks / sums_.count;
  // If all launches have the same size, only the mean is known.
  if (spread <= sums_.squares * 1e-9) return mean;
  const double slope =
      std::max((sums_.products - sums_.blocks * sums_.time / sums_.count) / spread, 0.0);
  return std::max(mean + slope * (blocks - sums_.blocks / sums_.count), 0.0);
}

void KernelTime::Restore(const KernelTimeSums& kept) {
  const MutexLock lock(mutex_);
  if (measured_ || !kept.sound()) return;
  const double part = kRestored / kept.count;
  sums_ = {kRestored, kept.blocks * part, kept.squares * part, kept.time * part,
           kept.products * part};
}

std::optional<KernelTimeSums> KernelTime::Sums() const {
  const MutexLock lock(mutex_);
  if (!measured_) return std::nullopt;
  return sums_;
}

PredictionErrors KernelTime::Errors() const {
  const MutexLock lock(mutex_);
  return errors_;
}

}  // namespace cuspan::proxy
