// Functions of the program that run when a stream comes to them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace cuspan {

// A function of the program, or none.
struct HostFunction {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
};

// Runs functions one after the other on a thread of its own, which starts with
// the first. Lives as long as the process.
//
// A function may end its thread (pthread_exit). Then it is as with CUDA: it counts as one that
// never returns, and what was to come after it never does (measured, driver 580).
class HostCalls {
 public:
  struct Call {
    // Which function is to be called, said when its turn has come.
    std::function<HostFunction()> choose;
    // When it has returned.
    std::function<void()> over;
  };
  // Any thread; does not wait.
  void Run(Call call);

 private:
  static void* Thread(void* calls);
  HostFunction Next();
  void Over();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Call> waiting_;
  Call current_;  // The thread's own.
  bool started_ = false;
};

}  // namespace cuspan
