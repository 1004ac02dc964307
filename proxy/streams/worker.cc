#include "proxy/streams/worker.h"

#include <utility>

#include "common/log.h"
#include "proxy/streams/roles.h"

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

void Worker::RunFirst(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    first_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Worker::Hold() {
  const MutexLock lock(mutex_);
  held_ = true;
}

void Worker::Let() {
  {
    const MutexLock lock(mutex_);
    held_ = false;
  }
  changed_.notify_one();
}

bool Worker::HasWaiting() const {
  const MutexLock lock(mutex_);
  return !tasks_.empty();
}

void Worker::ServeFirst(const std::function<bool()>& over) {
  MutexLock lock(mutex_);
  while (!ending_ && !over()) {
    // A task always arrives: the receiving thread always sends a reply.
    changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return ending_ || !first_.empty(); });
    if (ending_) return;
    std::function<void()> task = Pop(first_);
    lock.unlock();
    task();
    task = nullptr;  // Destroyed before locking.
    lock.lock();
  }
}

std::function<void()> Worker::Pop(std::deque<std::function<void()>>& from) {
  std::function<void()> task = std::move(from.front());
  from.pop_front();
  return task;
}

void Worker::Loop(const Device& device) {
  const WorkerThread::Scope role(worker_thread);
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) {
      return ending_ || !first_.empty() || (!held_ && !tasks_.empty());
    });
    if (ending_) return;
    std::function<void()> task = Pop(first_.empty() ? tasks_ : first_);
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace cuspan::proxy
