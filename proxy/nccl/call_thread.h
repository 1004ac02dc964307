// A thread for blocking NCCL calls: they wait for other ranks.
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

// Runs tasks one after the other, in order of arrival, with the device's context current. Spins for
// a while after each: calls usually follow each other closely.
class CallThread {
 public:
  // The thread calls idle() each time `period` has passed without a task.
  static Result<std::unique_ptr<CallThread>> Start(const Device& device,
                                                   std::chrono::milliseconds period,
                                                   std::function<void()> idle);
  // Waits for the running task; drops the waiting ones.
  ~CallThread();
  CallThread(const CallThread&) = delete;

  // Threads: any.
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
