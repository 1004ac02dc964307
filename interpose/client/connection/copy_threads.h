// Threads copying between the program's memory and staging slots: one core copies more slowly than
// a GPU.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace cuspan {

// The threads start with the first task and never end: the program may copy while it exits.
// Threads: any.
class CopyThreads {
 public:
  // Into staging slots, or out of them.
  enum class Way { kIn, kOut };
  explicit CopyThreads(Way way);

  // Number of threads copying at the same time. 1: the machine has too few cores for more, and Run
  // must not be used.
  unsigned count() const { return count_; }
  // Does not wait for the task.
  void Run(std::function<void()> task);

 private:
  void Loop();

  const unsigned count_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::size_t> polling_{0};  // Polling threads: they need no wake-up.
  Mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace cuspan
