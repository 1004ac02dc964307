#include "proxy/worker.h"

#include <utility>

#include "common/log.h"

namespace cuspan::proxy {

Worker::Worker(const Device& device) : thread_([this, &device] { Loop(device); }) {}

Worker::~Worker() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::Run(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Worker::Loop(const Device& device) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return ending_ || !tasks_.empty(); });
    if (ending_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace cuspan::proxy
