#include "common/task_threads.h"

#include <utility>

#include "common/start_thread.h"

namespace cuspan {
namespace {

// The pool of this thread; null: none.
thread_local const void* pool_of_thread = nullptr;

}  // namespace

void TaskThreads::DropTasks() {
  std::deque<std::function<void()>> dropped;  // They end without the lock.
  {
    const MutexLock lock(mutex_);
    running_ = false;
    dropped.swap(tasks_);
  }
  arrived_.notify_all();
}

void TaskThreads::End() {
  DropTasks();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void TaskThreads::Abandon() {
  DropTasks();
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

Status TaskThreads::Start() {
  if (!threads_.empty()) return Status::Ok();
  {
    const MutexLock lock(mutex_);
    running_ = true;
  }
  while (threads_.size() < count_) {
    Result<std::thread> thread = StartThread("cuspan-file", [this] { Loop(); });
    if (thread.ok()) {
      threads_.push_back(std::move(*thread));
      continue;
    }
    if (!threads_.empty()) break;
    const MutexLock lock(mutex_);
    running_ = false;
    return thread.status();
  }
  return Status::Ok();
}

void TaskThreads::Run(std::function<void()> task) {
  if (pool_of_thread != this) {
    const MutexLock lock(mutex_);
    if (running_) {
      tasks_.push_back(std::move(task));
      arrived_.notify_one();
      return;
    }
  }
  task();
}

void TaskThreads::Loop() {
  pool_of_thread = this;
  MutexLock lock(mutex_);
  for (;;) {
    // Idle: ends with a task, or with End.
    arrived_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return !running_ || !tasks_.empty(); });
    if (!running_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // Objects in it may end with it.
    lock.lock();
  }
}

}  // namespace cuspan
