// Calls of one connection waiting for their replies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"

namespace cuspan {

// Threads: any.
class PendingCalls {
 public:
  // Located on the waiting thread's stack.
  struct Call {
    std::atomic<bool> done{false};
    std::condition_variable arrived;
    std::vector<std::byte> payload;  // The reply's, once done.
  };

  // Returns the request number of the reply.
  std::uint32_t Add(Call* call) {
    const MutexLock lock(mutex_);
    const std::uint32_t request = next_++;
    calls_[request] = call;
    return request;
  }
  // Removes a call no longer waiting.
  void Remove(std::uint32_t request) {
    const MutexLock lock(mutex_);
    calls_.erase(request);
  }
  // Calls wait(std::condition_variable&, MutexLock&), then removes the call. wait returns when the
  // reply has arrived or never will.
  template <typename Wait>
  void WaitFor(std::uint32_t request, Call* call, Wait&& wait) {
    MutexLock lock(mutex_);
    wait(call->arrived, lock);
    calls_.erase(request);
  }
  // Delivers a reply to its waiting call; a reply without a call is dropped.
  void Deliver(std::uint32_t request, std::span<const std::byte> payload) {
    const MutexLock lock(mutex_);
    const auto call = calls_.find(request);
    if (call == calls_.end()) return;
    // The waiting thread cannot return and destroy its Call before it has the mutex.
    call->second->payload.assign(payload.begin(), payload.end());
    call->second->done.store(true, std::memory_order_release);
    call->second->arrived.notify_one();
  }
  // Calls fail(). If it returns true, no more replies will arrive: wakes all waiting threads. They
  // see the changes made by fail().
  template <typename Fail>
  bool FailAll(Fail&& fail) {
    const MutexLock lock(mutex_);
    if (!fail()) return false;
    for (auto& [request, call] : calls_) call->arrived.notify_one();
    return true;
  }

 private:
  Mutex mutex_;
  std::unordered_map<std::uint32_t, Call*> calls_ CUSPAN_GUARDED_BY(mutex_);
  std::uint32_t next_ CUSPAN_GUARDED_BY(mutex_) = 1;
};

}  // namespace cuspan
