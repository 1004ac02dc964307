// Cache of a context's limits queried by the program: some libraries query them before each launch.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <optional>

#include "common/mutex.h"

namespace cuspan {

// Threads: any.
class Limits {
 public:
  // Returns nothing if the device must be asked; the answer is passed to Keep, with the same `age`.
  std::optional<std::uint64_t> Find(CUlimit limit, std::uint64_t* age) const {
    const MutexLock lock(mutex_);
    *age = age_;
    const auto known = known_.find(limit);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  void Keep(CUlimit limit, std::uint64_t value, std::uint64_t age) {
    const MutexLock lock(mutex_);
    if (age == age_) known_[limit] = value;
  }
  // Drops all values: one was set, or the driver may have changed one.
  void Forget() {
    const MutexLock lock(mutex_);
    ++age_;
    known_.clear();
  }

 private:
  mutable Mutex mutex_;
  std::uint64_t age_ CUSPAN_GUARDED_BY(mutex_) = 0;  // Number of calls of Forget.
  std::map<CUlimit, std::uint64_t> known_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
