// Threads that copy between the program's memory and staging slots: one core
// copies more slowly than a GPU does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace cuspan {

// They start with the first task and never end: they outlive all else of the process, since the
// program may copy while it exits. Any thread.
class CopyThreads {
 public:
  // Into staging slots, or out of them.
  enum class Way { kIn, kOut };
  explicit CopyThreads(Way way);

  // How many copy at the same time. 1: the machine has too few cores for more, and nothing may
  // be given to Run.
  unsigned count() const { return count_; }
  // Does not wait for the task.
  void Run(std::function<void()> task);

 private:
  void Loop();

  const unsigned count_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::size_t> looking_{0};  // Threads that will see a new task without being woken.
  Mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace cuspan
