// Threads for tasks that the system may block for long, such as reads of files.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/file_thread_count.h"
#include "common/mutex.h"
#include "common/status.h"

namespace cuspan {

// Threads: any, except for Start and End: one at a time.
class TaskThreads {
 public:
  // At most `count` threads.
  explicit TaskThreads(unsigned count = FileThreadCount()) : count_(count) {}
  ~TaskThreads() { End(); }
  TaskThreads(const TaskThreads&) = delete;

  // Drops waiting tasks, and waits for running ones.
  void End();
  // Does not wait for them: this object must stay until the process ends.
  void Abandon();

  // The threads start at the first call. kExhausted if the system allows not even one.
  Status Start();
  // Runs `task` on one of them. Called by one of them, without threads, or after the end: at once.
  void Run(std::function<void()> task);

 private:
  // The threads end after their tasks.
  void DropTasks();
  void Loop();

  const unsigned count_;
  Mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  bool running_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace cuspan
