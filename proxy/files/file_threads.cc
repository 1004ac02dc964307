#include "proxy/files/file_threads.h"

#include <utility>

#include "common/start_thread.h"

namespace cuspan::proxy {
namespace {

// The pool of this thread; null: none.
thread_local const void* pool_of_thread = nullptr;

}  // namespace

void FileThreads::DropTasks() {
  std::deque<std::function<void()>> dropped;  // They end without the lock.
  {
    const MutexLock lock(mutex_);
    running_ = false;
    dropped.swap(tasks_);
  }
  arrived_.notify_all();
}

void FileThreads::End() {
  DropTasks();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void FileThreads::Abandon() {
  DropTasks();
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

Status FileThreads::Start() {
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

void FileThreads::Run(std::function<void()> task) {
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

void FileThreads::Loop() {
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

}  // namespace cuspan::proxy
