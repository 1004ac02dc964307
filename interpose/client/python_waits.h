// Lines of a Python program waiting for devices, for `cuspan run --stats`.
//
// Once a millisecond, a client thread checks for waiting threads of the program and asks Python for
// their lines. This needs Python's lock (the GIL), released by most threads before they wait. A
// thread keeping the lock asks for itself after its wait. Times of a line are therefore samples of
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

// A thread of the program, from its first wait on.
struct PythonWaiter {
  PythonWaiter(const PythonWaits* owner, std::uint64_t thread) : owner(owner), thread(thread) {}
  const PythonWaits* const owner;  // The parent's, perhaps, after a fork.
  const std::uint64_t thread;      // Thread number in Python: pthread_self().
  Mutex mutex;                     // Held briefly; the channel lives while the thread waits.
  std::uint64_t waits CUSPAN_GUARDED_BY(mutex) = 0;
  ChannelStatistics* statistics CUSPAN_GUARDED_BY(mutex) = nullptr;  // Null while it does not wait.
  std::chrono::steady_clock::time_point start CUSPAN_GUARDED_BY(mutex);
};

// Threads: any.
class PythonWaits final : public WaitObserver {
 public:
  // Null if CUSPAN_STATS is off, or no Python in the process can be asked. Lives as long as the
  // process.
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
  // True if threads wait now: Note must follow, with Python's lock held.
  bool Sample();
  void Note();
  std::shared_ptr<PythonWaiter> WaiterOfThisThread();
  void Add(ChannelStatistics& statistics, std::string_view location,
           std::chrono::nanoseconds waited);

  const Python& python_;
  // Thread of Run only: waiting threads at the last check, and the time since the previous check.
  std::vector<Waiting> waiting_;
  std::chrono::steady_clock::time_point last_sample_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds since_{0};
  Mutex mutex_;
  std::vector<std::weak_ptr<PythonWaiter>> waiters_ CUSPAN_GUARDED_BY(mutex_);
  Mutex adding_;  // Held while lines are added to the statistics of any channel.
};

}  // namespace cuspan
