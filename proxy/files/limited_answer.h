// An answer that comes within a limit, though a thread may be blocked by a file system.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <utility>

#include "common/mutex.h"

namespace cuspan::proxy {

// Threads: any.
template <typename T>
class LimitedAnswer {
 public:
  explicit LimitedAnswer(std::function<void(T)> answer) : answer_(std::move(answer)) {}

  // Calls the function, if nobody has before. False if somebody has.
  bool Give(T value) {
    const MutexLock lock(mutex_);
    if (given_) return false;
    given_ = true;
    answer_(std::move(value));
    arrived_.notify_all();
    return true;
  }
  // Waits for the answer; gives this one after the limit, and returns true then.
  bool GiveAfter(std::chrono::milliseconds limit, T value) {
    {
      MutexLock lock(mutex_);
      if (arrived_.wait_for(lock, limit, [this]() CUSPAN_REQUIRES(mutex_) { return given_; }))
        return false;
    }
    return Give(std::move(value));
  }

 private:
  const std::function<void(T)> answer_;
  Mutex mutex_;
  std::condition_variable arrived_;
  bool given_ CUSPAN_GUARDED_BY(mutex_) = false;
};

}  // namespace cuspan::proxy
