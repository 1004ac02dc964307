// A thread that makes extents of served files resident.
#pragma once

#include <condition_variable>
#include <set>
#include <thread>

#include "common/mutex.h"
#include "common/status.h"
#include "store/engine/extents.h"

namespace cuspan::store {

// Threads: any.
class ExtentThread {
 public:
  ExtentThread() = default;
  // Waits for the extents being locked.
  ~ExtentThread();
  ExtentThread(const ExtentThread&) = delete;

  // The extents stay until Remove. The thread starts at the first call.
  Status Add(Extents& extents);
  // Returns once the thread does not use them.
  void Remove(Extents& extents);
  // Extents::Pay has returned true.
  void Want();

 private:
  void Loop();

  Mutex mutex_;
  std::condition_variable changed_;
  std::set<Extents*> all_ CUSPAN_GUARDED_BY(mutex_);
  Extents* locking_ CUSPAN_GUARDED_BY(mutex_) = nullptr;
  bool wanted_ CUSPAN_GUARDED_BY(mutex_) = false;
  bool ending_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::thread thread_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::store
