// How long a kernel takes alone, learnt from launches that were: t = a + b · blocks, by least
// squares over the last ones.
#pragma once

#include <cstdint>
#include <optional>

#include "common/mutex.h"

namespace cuspan::proxy {

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

 private:
  std::uint64_t launches_ = 0;
  std::uint64_t samples_ = 0;
  mutable Mutex mutex_;
  bool warm_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Sums over all samples, of which older ones count for less and less.
  double count_ CUSPAN_GUARDED_BY(mutex_) = 0;
  double blocks_ CUSPAN_GUARDED_BY(mutex_) = 0;
  double squares_ CUSPAN_GUARDED_BY(mutex_) = 0;
  double time_ CUSPAN_GUARDED_BY(mutex_) = 0;
  double products_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cuspan::proxy
