// Calls of one connection that wait for their replies.
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

// Any thread.
class PendingCalls {
 public:
  // On the stack of the thread that waits.
  struct Call {
    std::atomic<bool> done{false};
    std::condition_variable arrived;
    std::vector<std::byte> payload;  // Of the reply, when it is done.
  };

  // Returns the number under which the reply comes.
  std::uint32_t Add(Call* call) {
    const MutexLock lock(mutex_);
    const std::uint32_t request = next_++;
    calls_[request] = call;
    return request;
  }
  // Nobody waits for it any more.
  void Remove(std::uint32_t request) {
    const MutexLock lock(mutex_);
    calls_.erase(request);
  }
  // Calls wait(std::condition_variable&, std::unique_lock&), which returns when the reply has
  // arrived or never will, and removes the call.
  template <typename Wait>
  void WaitFor(std::uint32_t request, Call* call, Wait&& wait) {
    MutexLock lock(mutex_);
    wait(call->arrived, lock);
    calls_.erase(request);
  }
  // The reply of one that somebody waits for; others are given up.
  void Deliver(std::uint32_t request, std::span<const std::byte> payload) {
    const MutexLock lock(mutex_);
    const auto call = calls_.find(request);
    if (call == calls_.end()) return;
    // The caller can not leave, and take its Call with it, before it has the mutex.
    call->second->payload.assign(payload.begin(), payload.end());
    call->second->done.store(true, std::memory_order_release);
    call->second->arrived.notify_one();
  }
  // When fail() says so, nothing more will arrive: all that wait look again. What fail() changes is
  // seen by them.
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
