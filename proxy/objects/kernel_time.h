// Run time of a kernel without other load, from measured launches: t = a + b · blocks, by least
// squares over the last ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/mutex.h"

namespace cuspan::proxy {

// Sums over samples; older samples have decreasing weights.
struct KernelTimeSums {
  double count = 0;
  double blocks = 0;
  double squares = 0;   // Sum of blocks².
  double time = 0;      // Unit: ns.
  double products = 0;  // Sum of blocks · time.

  // True if `count` samples can have these sums.
  bool sound() const;
  friend bool operator==(const KernelTimeSums&, const KernelTimeSums&) = default;
};

// Histogram of prediction errors, |predicted ÷ actual - 1|, for one or many kernels.
struct PredictionErrors {
  static constexpr int kSteps = 16;
  // Upper ends of all steps but the last.
  static constexpr std::array<double, kSteps - 1> kEnds = {
      0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 2, 5, 10};

  std::array<std::uint32_t, kSteps> counts{};

  void Add(double error);
  void Add(const PredictionErrors& more);
  std::uint64_t count() const;
  // Median, within the precision of the steps; at most the last end. Without errors, nullopt.
  std::optional<double> Median() const;
};

// Threads: any, unless noted otherwise.
class KernelTime {
 public:
  // Called for each launch: true if it should be measured. This holds for the first ones, then for
  // fewer and fewer. Sampled: it was measured. Threads: the launching thread.
  bool WantsSample();
  void Sampled() { ++samples_; }
  // Adds the time of a launch without other load. The first call is ignored: the driver's work for
  // a kernel's first launch is included.
  void Add(std::uint64_t blocks, double nanoseconds);
  // Predicts the time of a launch (ns); nullopt without samples.
  std::optional<double> Predict(std::uint64_t blocks) const;

  // Restores the result of an earlier run, with the weight of a quarter of a sample. To be called
  // before the first Add.
  void Restore(const KernelTimeSums& kept);
  // Returns the sums to store; nullopt without samples of this run.
  std::optional<KernelTimeSums> Sums() const;
  // Errors of the samples with a prediction.
  PredictionErrors Errors() const;

 private:
  std::optional<double> PredictLocked(double blocks) const CUSPAN_REQUIRES(mutex_);

  std::uint64_t launches_ = 0;
  std::uint64_t samples_ = 0;
  mutable Mutex mutex_;
  bool warm_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool measured_ CUSPAN_GUARDED_BY(mutex_) = false;
  KernelTimeSums sums_ CUSPAN_GUARDED_BY(mutex_);
  PredictionErrors errors_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy
