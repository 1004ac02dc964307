// Functions of the program that run when a stream comes to them.
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
// A function may end its thread (pthread_exit). Then it is as with CUDA: it counts as one that
// never returns, and what was to come after it never does (measured, driver 580).
class HostCallThread {
 public:
  struct Call {
    // Which function is to be called, said when its turn has come.
    std::function<HostFunction()> choose;
    // When it has returned.
    std::function<void()> over;
  };
  // To be called before Run. CUDA_ERROR_OPERATING_SYSTEM if no thread can be started. Any thread.
  CUresult Start();
  // Any thread; does not wait.
  void Run(Call call);

 private:
  static void* Thread(void* calls);
  HostFunction Next();
  void Over();

  Mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Call> waiting_ CUSPAN_GUARDED_BY(mutex_);
  Call current_;  // The thread's own.
  bool started_ CUSPAN_GUARDED_BY(mutex_) = false;
};

// Any thread. Lives as long as the process.
class HostCalls {
 public:
  explicit HostCalls(Events* events) : events_(*events) {}
  HostCalls(const HostCalls&) = delete;

  // The function that `call` returns runs on a thread of ours when the stream has come so far, and
  // the stream goes on after it. When the device is lost before, `call` is called with the sticky
  // error.
  using Choose = std::function<HostFunction(CUresult)>;
  CUresult Call(const StreamTarget& target, Choose call);
  // Whether there are some that have not run.
  bool pending() const { return pending_.load(std::memory_order_acquire) != 0; }

 private:
  Events& events_;
  std::atomic<int> pending_{0};
  HostCallThread thread_;
};

}  // namespace cuspan
