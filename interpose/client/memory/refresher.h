// Thread maintaining shared memory while devices work and the program makes no calls. The program's
// threads do the rest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "common/mutex.h"

namespace cuspan {

// Threads: any, also the receiver's. Only functions run by the thread wait for devices.
class Refresher {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  // Does due work, and returns the time of the next call; nothing: not before the next CallBy.
  using Refresh = std::function<std::optional<Time>(Time now)>;

  explicit Refresher(Refresh refresh) : refresh_(std::move(refresh)) {}
  Refresher(const Refresher&) = delete;
  // Ends the thread after its current job.
  ~Refresher();

  // Starts the thread, unless already started. False if no thread can be started.
  bool Start();
  // Requests a refresh by that time. Without the thread, nothing is done.
  void CallBy(Time when);
  // Runs the jobs soon, in this order. Start must have started the thread.
  void Run(std::function<void()> job);

 private:
  void Serve();

  const Refresh refresh_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_ CUSPAN_GUARDED_BY(mutex_);
  bool ends_ CUSPAN_GUARDED_BY(mutex_) = false;
  Time next_ CUSPAN_GUARDED_BY(mutex_) = Time::max();
  Time asleep_until_ CUSPAN_GUARDED_BY(mutex_) = Time::min();  // A past time: the thread is awake.
  std::deque<std::function<void()>> jobs_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
