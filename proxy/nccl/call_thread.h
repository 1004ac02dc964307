// A thread for calls of NCCL, which wait for other ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/mutex.h"
#include "common/status.h"
#include "protocol/channel/bell.h"
#include "proxy/gpu/device.h"

namespace cuspan::proxy {

// Runs tasks one after the other, in the order in which they came, with the device's context
// current. Waits awake for a while after each: calls come one after the other.
class CallThread {
 public:
  // idle() is called by the thread each time that `period` has passed without a task.
  static Result<std::unique_ptr<CallThread>> Start(const Device& device,
                                                   std::chrono::milliseconds period,
                                                   std::function<void()> idle);
  // Ends after the task that runs now; drops those that wait.
  ~CallThread();
  CallThread(const CallThread&) = delete;

  // Any thread.
  void Run(std::function<void()> task);

 private:
  CallThread(Bell bell, std::chrono::milliseconds period, std::function<void()> idle)
      : bell_(std::move(bell)), period_(period), idle_(std::move(idle)) {}
  void Loop(const Device& device);
  std::function<void()> Next();

  Bell bell_;
  const std::chrono::milliseconds period_;
  const std::function<void()> idle_;
  Mutex mutex_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<std::size_t> waiting_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace cuspan::proxy
