// Channels to other proxies of the session. The agent delivers them at any time; the thread needing
// a channel waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "protocol/channel/channel.h"

namespace cuspan::proxy {

// Threads: any.
class JoinInbox {
 public:
  struct Joined {
    std::unique_ptr<Channel> channel;  // Null if there is a problem.
    std::string problem;
  };

  // Stores the agent's answer to a join: a channel, or the reason of failure.
  void Put(std::uint32_t join, Joined joined) {
    {
      const MutexLock lock(mutex_);
      joined_.insert_or_assign(join, std::move(joined));
    }
    arrived_.notify_all();
  }
  // Waits for the answer, at most `limit`.
  Joined Await(std::uint32_t join, std::chrono::milliseconds limit) {
    MutexLock lock(mutex_);
    if (!arrived_.wait_for(
            lock, limit,
            [&]() CUSPAN_REQUIRES(mutex_) { return ended_ || joined_.contains(join); }) ||
        ended_)
      return {nullptr, "the agent provided no channel to another device"};
    return std::move(joined_.extract(join).mapped());
  }
  // Ends all waits: no more answers will come.
  void End() {
    {
      const MutexLock lock(mutex_);
      ended_ = true;
    }
    arrived_.notify_all();
  }

 private:
  Mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint32_t, Joined> joined_ CUSPAN_GUARDED_BY(mutex_);
  bool ended_ CUSPAN_GUARDED_BY(mutex_) = false;
};

}  // namespace cuspan::proxy
