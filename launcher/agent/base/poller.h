// Event loop of one thread: readable or writable descriptors, and timers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/agent/base/roles.h"

namespace cuspan {

// Threads: one. Handlers run inside Wait. They may call every function except Wait, and may forget
// descriptors including their own.
class Poller {
 public:
  using Handler = std::function<void()>;
  using TimerId = std::uint64_t;

  static Result<Poller> Create();

  // Calls `handler` whenever `fd` is readable or hung up, until Forget.
  Status Watch(int fd, Handler handler) CUSPAN_REQUIRES(agent_thread);
  // Selects the events of a watched descriptor. Hang-ups are always reported.
  enum class Interest { kRead, kWrite, kNothing };
  void SetInterest(int fd, Interest interest) CUSPAN_REQUIRES(agent_thread);
  // Must be called before the descriptor is closed.
  void Forget(int fd) CUSPAN_REQUIRES(agent_thread);
  // Calls `handler` once, after `delay`.
  TimerId After(std::chrono::milliseconds delay, Handler handler) CUSPAN_REQUIRES(agent_thread);
  // No effect if the timer has fired.
  void Cancel(TimerId timer) CUSPAN_REQUIRES(agent_thread);

  // Handles ready events; blocks up to `limit` for the first (negative: no limit).
  void Wait(std::chrono::milliseconds limit) CUSPAN_REQUIRES(agent_thread);
  // The epoll descriptor, readable if any watched descriptor is ready. Another thread sleeps on it.
  int fd() const { return epoll_.get(); }
  // Time until the first timer, when Wait returns at the latest; negative: no timer.
  std::chrono::milliseconds limit() const CUSPAN_REQUIRES(agent_thread) {
    return std::chrono::milliseconds(TimeoutFor(std::chrono::milliseconds(-1)));
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Timer {
    Clock::time_point due;
    Handler handler;
  };
  explicit Poller(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  int TimeoutFor(std::chrono::milliseconds limit) const CUSPAN_REQUIRES(agent_thread);
  void FireTimers() CUSPAN_REQUIRES(agent_thread);

  UniqueFd epoll_;
  std::map<int, std::shared_ptr<Handler>> handlers_ CUSPAN_GUARDED_BY(agent_thread);
  std::map<TimerId, Timer> timers_ CUSPAN_GUARDED_BY(agent_thread);
  TimerId last_timer_ CUSPAN_GUARDED_BY(agent_thread) = 0;
};

}  // namespace cuspan
