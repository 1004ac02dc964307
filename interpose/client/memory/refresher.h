// A thread of its own for what shared memory needs while devices work and the program does not
// call: the rest is done by the program's threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "common/mutex.h"

namespace cuspan {

// Any thread, also the receiver's: nothing here waits for a device but what the thread runs.
class Refresher {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  // Does what is due now, and says when something will be again; nothing: not before somebody says
  // so.
  using Refresh = std::function<std::optional<Time>(Time now)>;

  explicit Refresher(Refresh refresh) : refresh_(std::move(refresh)) {}
  Refresher(const Refresher&) = delete;
  // Ends the thread, when it has done what it does just now.
  ~Refresher();

  // Starts the thread, if that was not done. False if no thread can be started.
  bool Start();
  // Something will be due at that time. Nothing is done without the thread.
  void CallBy(Time when);
  // The thread, which Start has started, runs it soon, one after the other in this order.
  void Run(std::function<void()> job);

 private:
  void Serve();

  const Refresh refresh_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_ CUSPAN_GUARDED_BY(mutex_);
  bool ends_ CUSPAN_GUARDED_BY(mutex_) = false;
  Time next_ CUSPAN_GUARDED_BY(mutex_) = Time::max();
  Time asleep_until_ CUSPAN_GUARDED_BY(mutex_) = Time::min();  // The past: the thread is awake.
  std::deque<std::function<void()>> jobs_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
