// Functions of the program run in a stream's order (cudaLaunchHostFunc).
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>

#include "common/mutex.h"
#include "interpose/client/events.h"

namespace cuspan {

// A function of the program, or none.
struct HostFunction {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
};

// Runs functions one after the other on a thread of its own. Lives as long as the process.
//
// A function may end its thread (pthread_exit). As with CUDA, it then counts as one never
// returning, and later functions never run (measured, driver 580).
class HostCallThread {
 public:
  struct Call {
    // Returns the function to be called; runs when it is next.
    std::function<HostFunction()> choose;
    // Called after the function's return.
    std::function<void()> over;
  };
  // To be called before Run. CUDA_ERROR_OPERATING_SYSTEM if no thread can be started. Threads: any.
  CUresult Start();
  // Threads: any; does not block.
  void Run(Call call);

 private:
  static void* Thread(void* calls);
  HostFunction Next();
  void Over();

  Mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Call> waiting_ CUSPAN_GUARDED_BY(mutex_);
  Call current_;  // Threads: its own only.
  bool started_ CUSPAN_GUARDED_BY(mutex_) = false;
};

// Threads: any. Lives as long as the process.
class HostCalls {
 public:
  explicit HostCalls(Events* events) : events_(*events) {}
  HostCalls(const HostCalls&) = delete;

  // Runs the function returned by `call` on a client thread when the stream reaches this point; the
  // stream goes on after it. If the device is lost before, `call` gets the sticky error.
  using Choose = std::function<HostFunction(CUresult)>;
  CUresult Call(const StreamTarget& target, Choose call);
  // True if some have not run yet.
  bool pending() const { return pending_.load(std::memory_order_acquire) != 0; }

 private:
  Events& events_;
  std::atomic<int> pending_{0};
  HostCallThread thread_;
};

}  // namespace cuspan
