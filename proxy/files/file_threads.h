// Threads reading and writing files: the system may block them for long.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/file_thread_count.h"
#include "common/mutex.h"
#include "common/status.h"

namespace cuspan::proxy {

// Threads: any, except for Start and End: one at a time.
class FileThreads {
 public:
  // At most `count` threads.
  explicit FileThreads(unsigned count = FileThreadCount()) : count_(count) {}
  ~FileThreads() { End(); }
  FileThreads(const FileThreads&) = delete;

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

}  // namespace cuspan::proxy
