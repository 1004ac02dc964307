// One thread's events: descriptors that become readable or writable, and timers.
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

// One thread. Handlers run inside Wait, may call every function but Wait, and may
// forget descriptors, their own included.
class Poller {
 public:
  using Handler = std::function<void()>;
  using TimerId = std::uint64_t;

  static Result<Poller> Create();

  // Calls `handler` whenever `fd` is readable or hung up, until Forget.
  Status Watch(int fd, Handler handler) CUSPAN_REQUIRES(agent_thread);
  // What the handler of a watched descriptor is called for from now on, its end aside.
  enum class Interest { kRead, kWrite, kNothing };
  void SetInterest(int fd, Interest interest) CUSPAN_REQUIRES(agent_thread);
  // To be called before the descriptor is closed.
  void Forget(int fd) CUSPAN_REQUIRES(agent_thread);
  // Calls `handler` once, after `delay`.
  TimerId After(std::chrono::milliseconds delay, Handler handler) CUSPAN_REQUIRES(agent_thread);
  // Does nothing when the timer has fired.
  void Cancel(TimerId timer) CUSPAN_REQUIRES(agent_thread);

  // Handles what is ready; waits at most `limit` for it (for ever when negative).
  void Wait(std::chrono::milliseconds limit) CUSPAN_REQUIRES(agent_thread);
  // Readable when some descriptor is: for another thread, which sleeps on it.
  int fd() const { return epoll_.get(); }
  // How long Wait would wait where nothing happens: until the first timer; negative: for ever.
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
