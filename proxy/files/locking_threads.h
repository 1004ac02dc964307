// Threads for page-locking memory, and for unlocking it. Unlocking waits for running kernels, and
// locking must not wait for that.
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
class LockingThreads {
 public:
  // Ends them with their session, after End. Does not wait for kernels: locked memory stays
  // locked, and the process ends.
  static void Finish(std::shared_ptr<LockingThreads> threads);

  // From now on memory stays locked.
  void End();
  const std::atomic<bool>& ended() const { return ended_; }

  // Calls locks() on a thread, one after the other. kExhausted if the system allows no thread.
  Status Run(std::function<void()> locks);
  // An object with locked memory that ends on a thread, or not at all after End.
  template <typename T>
  static std::shared_ptr<T> Share(std::shared_ptr<LockingThreads> threads,
                                  std::unique_ptr<T> made) {
    T* const object = made.get();
    return {object, [threads = std::move(threads), owned = std::shared_ptr<void>(std::move(made))](
                        T*) mutable { threads->Unlock(std::move(owned)); }};
  }

 private:
  void Unlock(std::shared_ptr<void> object);
  Mutex starting_;
  TaskThreads locks_{1};
  TaskThreads unlocks_{1};
  std::atomic<bool> in_driver_ = false;  // Memory is being unlocked.
  std::atomic<bool> ended_ = false;
  Mutex keeping_;
  // Objects to be ended; after End they stay.
  std::deque<std::shared_ptr<void>> unlocked_ CUSPAN_GUARDED_BY(keeping_);
};

}  // namespace cuspan::proxy
