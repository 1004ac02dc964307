// On which lines a Python program waits for its devices, for `cuspan run --stats`.
//
// A thread of ours looks once a millisecond which threads of the program wait, and asks Python
// where they are. Whoever waits has mostly given up Python's lock (the GIL), which that needs; a
// thread that keeps it asks for itself when its wait is over. So the times of a line are samples of
// some milliseconds each, or measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/wait_observer.h"
#include "protocol/channel/channel.h"

namespace cuspan {

class Python;
class PythonWaits;

// A thread of the program, once it has waited.
struct PythonWaiter {
  PythonWaiter(const PythonWaits* owner, std::uint64_t thread) : owner(owner), thread(thread) {}
  const PythonWaits* const owner;  // After a fork it may be the parent's.
  const std::uint64_t thread;      // As Python numbers threads: pthread_self().
  Mutex mutex;                     // Held for moments: the channel stays while the thread waits.
  std::uint64_t waits CUSPAN_GUARDED_BY(mutex) = 0;
  ChannelStatistics* statistics CUSPAN_GUARDED_BY(mutex) = nullptr;  // Null while it does not wait.
  std::chrono::steady_clock::time_point start CUSPAN_GUARDED_BY(mutex);
};

// Any thread.
class PythonWaits final : public WaitObserver {
 public:
  // Null where CUSPAN_STATS is off, or the process has no Python that can be asked. Never ends.
  static PythonWaits* Start();

  bool Begin(ChannelStatistics& statistics) override;
  void End() override;

 private:
  explicit PythonWaits(const Python* python) : python_(*python) {}
  static void* Run(void* self);
  struct Waiting {
    std::shared_ptr<PythonWaiter> waiter;
    std::uint64_t waits;
  };
  // Whether somebody waits now: then Note is due, with Python's lock.
  bool Look();
  void Note();
  std::shared_ptr<PythonWaiter> WaiterOfThisThread();
  void Add(ChannelStatistics& statistics, std::string_view place, std::chrono::nanoseconds waited);

  const Python& python_;
  // Of Run: who waited at the last look, and the time between it and the one before.
  std::vector<Waiting> waiting_;
  std::chrono::steady_clock::time_point last_look_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds since_{0};
  Mutex mutex_;
  std::vector<std::weak_ptr<PythonWaiter>> waiters_ CUSPAN_GUARDED_BY(mutex_);
  Mutex adding_;  // Of places to the statistics of all channels.
};

}  // namespace cuspan
