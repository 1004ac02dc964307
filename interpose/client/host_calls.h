// Functions of the program that run when a stream comes to them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cuspan {

// Runs functions one after the other on a thread of its own, which starts with
// the first. Lives as long as the process.
class HostCalls {
 public:
  // Any thread; does not wait.
  void Run(std::function<void()> function);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> waiting_;
  std::thread thread_;
};

}  // namespace cuspan
