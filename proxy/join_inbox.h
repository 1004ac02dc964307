// Channels to other proxies of the session, on their way from the agent (which hands them over at
// its own time) to the one who asked for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "protocol/channel/channel.h"

namespace cuspan::proxy {

// Threads: any.
class JoinInbox {
 public:
  struct Joined {
    std::unique_ptr<Channel> channel;  // Null where there is a problem.
    std::string problem;
  };

  // The agent's answer for a join: a channel, or why there is none.
  void Put(std::uint32_t join, Joined joined) {
    {
      std::scoped_lock lock(mutex_);
      joined_.insert_or_assign(join, std::move(joined));
    }
    arrived_.notify_all();
  }
  // Waits for it, at most `limit`.
  Joined Take(std::uint32_t join, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, limit, [&] { return ended_ || joined_.contains(join); }) || ended_)
      return {nullptr, "the agent provided no channel to another device"};
    return std::move(joined_.extract(join).mapped());
  }
  // No more will come.
  void End() {
    {
      std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    arrived_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint32_t, Joined> joined_;
  bool ended_ = false;
};

}  // namespace cuspan::proxy
