#include "proxy/streams/worker.h"

#include <chrono>
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
  Changed();
  thread_.join();
}

void Worker::Changed() {
  changes_.fetch_add(1, std::memory_order_release);
  changed_.notify_one();
}

void Worker::AwaitSoon(std::uint64_t seen) const {
  const auto end = std::chrono::steady_clock::now() + stages_.spin;
  while (changes_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < end)
    __builtin_ia32_pause();
}

void Worker::Run(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  Changed();
}

void Worker::RunFirst(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    first_.push_back(std::move(task));
  }
  Changed();
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
  Changed();
}

bool Worker::HasWaiting() const {
  const MutexLock lock(mutex_);
  return !tasks_.empty();
}

bool Worker::idle() const {
  const MutexLock lock(mutex_);
  return !running_ && first_.empty() && tasks_.empty();
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
    if (!ending_ && !HasTask()) {
      const std::uint64_t seen = changes_.load(std::memory_order_relaxed);
      lock.unlock();
      AwaitSoon(seen);
      lock.lock();
    }
    changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return ending_ || HasTask(); });
    if (ending_) return;
    std::function<void()> task = Pop(first_.empty() ? tasks_ : first_);
    running_ = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    running_ = false;
  }
}

}  // namespace cuspan::proxy
