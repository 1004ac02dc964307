// Failures of posted ops, by posting thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "common/mutex.h"

namespace cuspan {

// Threads: any. Keys are ThreadState::number.
class PostedFailures {
 public:
  void Add(std::uint32_t thread, CUresult failure) {
    const MutexLock lock(mutex_);
    failures_.emplace(thread, failure);
    any_.store(true, std::memory_order_release);
  }
  // Returns the thread's first failure, once; CUDA_SUCCESS if there was no failure.
  CUresult Consume(std::uint32_t thread) {
    if (!any_.load(std::memory_order_acquire)) [[likely]]
      return CUDA_SUCCESS;
    const MutexLock lock(mutex_);
    const auto failure = failures_.find(thread);
    if (failure == failures_.end()) return CUDA_SUCCESS;
    const CUresult result = failure->second;
    failures_.erase(failure);
    if (failures_.empty()) any_.store(false, std::memory_order_release);
    return result;
  }

 private:
  Mutex mutex_;
  std::unordered_map<std::uint32_t, CUresult> failures_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};
};

}  // namespace cuspan
