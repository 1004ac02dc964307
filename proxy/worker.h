// The thread for driver calls that may block: module loading, memory mapping,
// whatever waits for the device.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "common/mutex.h"
#include "proxy/gpu/device.h"

namespace cuspan::proxy {

// Runs tasks one after the other, in the order in which they came.
class Worker {
 public:
  explicit Worker(const Device& device);
  // Ends after the task that runs now; drops those that wait.
  ~Worker();

  // Threads: any.
  void Run(std::function<void()> task);

 private:
  void Loop(const Device& device);

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  bool ending_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cuspan::proxy
