// How long a kernel takes alone, learnt from launches that were: t = a + b · blocks, by least
// squares over the last ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/mutex.h"

namespace cuspan::proxy {

// Over samples, of which older ones count for less and less.
struct KernelTimeSums {
  double count = 0;
  double blocks = 0;
  double squares = 0;   // Of the blocks.
  double time = 0;      // In ns.
  double products = 0;  // Of blocks and times.

  // Whether that many samples can have these sums.
  bool sound() const;
  friend bool operator==(const KernelTimeSums&, const KernelTimeSums&) = default;
};

// How far predictions were from what came: |predicted ÷ actual - 1|, of one or of many kernels.
struct PredictionErrors {
  static constexpr int kSteps = 16;
  // The upper ends of all steps but the last.
  static constexpr std::array<double, kSteps - 1> kEnds = {
      0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 2, 5, 10};

  std::array<std::uint32_t, kSteps> counts{};

  void Add(double error);
  void Add(const PredictionErrors& more);
  std::uint64_t count() const;
  // As exactly as the steps allow; the last end for what is beyond. Nothing of none.
  std::optional<double> Median() const;
};

// Threads: any, but for what is said to be one's.
class KernelTime {
 public:
  // To be asked at each launch: whether it is to be measured. The first ones are, then fewer and
  // fewer. The thread that launches, as Sampled: it was.
  bool WantsSample();
  void Sampled() { ++samples_; }
  // One that ran alone took so long. The first is not counted: it pays for what the driver does
  // at a kernel's first launch.
  void Add(std::uint64_t blocks, double nanoseconds);
  // What one of so many blocks will take (ns); nothing as long as nothing is known.
  std::optional<double> Predict(std::uint64_t blocks) const;

  // What an earlier run has learnt counts for a quarter of a sample. Before the first Add.
  void Restore(const KernelTimeSums& kept);
  // What is to be kept: nothing without a sample of this run.
  std::optional<KernelTimeSums> Sums() const;
  // Of the samples that came when there was a prediction.
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
