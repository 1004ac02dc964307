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
  // Before all that waits, and also while others are held.
  void RunFirst(std::function<void()> task);
  // No task of Run begins from Hold to Let.
  void Hold();
  void Let();
  // Whether tasks of Run wait.
  bool HasWaiting() const;

  // By a task, which may go on only when one of RunFirst has done something: runs those until
  // over(), or until the worker ends.
  void ServeFirst(const std::function<bool()>& over);

 private:
  void Loop(const Device& device);

  static std::function<void()> Pop(std::deque<std::function<void()>>& from);

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> first_ CUSPAN_GUARDED_BY(mutex_);  // Of RunFirst.
  bool held_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool ending_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cuspan::proxy
