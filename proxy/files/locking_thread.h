// A thread for page-locking memory and unlocking it. Unlocking waits for running kernels.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "common/mutex.h"
#include "common/task_threads.h"

namespace cuspan::proxy {

// Threads: any.
class LockingThread {
 public:
  // Ends a thread with its session, after End. Does not wait for kernels: locked memory stays
  // locked, and the process ends.
  static void Finish(std::shared_ptr<LockingThread> thread);

  // From now on memory stays locked.
  void End() { ended_ = true; }
  const std::atomic<bool>& ended() const { return ended_; }

  // Calls locks() on the thread. kExhausted if the system allows no thread.
  Status Run(std::function<void()> locks);
  // An object with locked memory that ends on the thread, or not at all after End.
  template <typename T>
  static std::shared_ptr<T> Share(std::shared_ptr<LockingThread> thread, std::unique_ptr<T> made) {
    T* const object = made.get();
    return {object, [thread = std::move(thread), owned = std::shared_ptr<void>(std::move(made))](
                        T*) mutable { thread->Unlock(std::move(owned)); }};
  }

 private:
  void Unlock(std::shared_ptr<void> object);
  Mutex starting_;
  TaskThreads thread_{1};
  std::atomic<bool> in_driver_ = false;  // Memory is being unlocked.
  std::atomic<bool> ended_ = false;
  Mutex keeping_;
  // Objects to be ended; after End they stay.
  std::deque<std::shared_ptr<void>> unlocked_ CUSPAN_GUARDED_BY(keeping_);
};

}  // namespace cuspan::proxy
