// Thread for driver calls possibly waiting for the device: loading modules, mapping memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "common/mutex.h"
#include "protocol/channel/bell.h"
#include "proxy/gpu/device.h"

namespace cuspan::proxy {

// Runs tasks one after the other, in order of arrival.
class Worker {
 public:
  explicit Worker(const Device& device);
  // Waits for the running task; drops the waiting ones.
  ~Worker();

  // Threads: any.
  void Run(std::function<void()> task);
  // Runs `task` before all tasks of Run, even while these are held.
  void RunFirst(std::function<void()> task);
  // Hold: no task of Run begins until Let.
  void Hold();
  void Let();
  // True if tasks of Run wait.
  bool HasWaiting() const;
  // True if no task waits or runs.
  bool idle() const;

  // Called by a task depending on a task of RunFirst. Runs tasks of RunFirst until over() or the
  // worker's end.
  void ServeFirst(const std::function<bool()>& over);

 private:
  void Loop(const Device& device);
  bool HasTask() const CUSPAN_REQUIRES(mutex_) {
    return !first_.empty() || (!held_ && !tasks_.empty());
  }
  // Announces a change to the waiting thread.
  void Changed();
  // Returns at the next change, or after a little time: waking a sleeping thread takes longer than
  // most tasks.
  void AwaitSoon(std::uint64_t seen) const;

  static std::function<void()> Pop(std::deque<std::function<void()>>& from);

  const WaitStages stages_ = WaitStages::ForThisMachine();
  std::atomic<std::uint64_t> changes_{0};
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> first_ CUSPAN_GUARDED_BY(mutex_);  // Tasks of RunFirst.
  bool held_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool running_ CUSPAN_GUARDED_BY(mutex_) = false;  // A task.
  bool ending_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cuspan::proxy
