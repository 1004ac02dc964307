#include "store/engine/extent_thread.h"

#include <utility>
#include <vector>

#include "common/start_thread.h"

namespace cuspan::store {

ExtentThread::~ExtentThread() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

Status ExtentThread::Add(Extents& extents) {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) {
    CUSPAN_ASSIGN_OR_RETURN(thread_, StartThread("cuspan-extents", [this] { Loop(); }));
  }
  all_.insert(&extents);
  return Status::Ok();
}

void ExtentThread::Remove(Extents& extents) {
  MutexLock lock(mutex_);
  all_.erase(&extents);
  // Ends: locking waits for reads of a file only.
  changed_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) { return locking_ != &extents; });
}

void ExtentThread::Want() {
  {
    const MutexLock lock(mutex_);
    wanted_ = true;
  }
  changed_.notify_all();
}

void ExtentThread::Loop() {
  MutexLock lock(mutex_);
  for (;;) {
    // Idle: ends with Want, or with this object.
    changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return ending_ || wanted_; });
    if (ending_) return;
    wanted_ = false;
    const std::vector<Extents*> all(all_.begin(), all_.end());
    for (Extents* const extents : all) {
      for (bool more = true; more && !ending_ && all_.contains(extents);) {
        locking_ = extents;
        lock.unlock();
        more = extents->LockWanted();
        lock.lock();
        locking_ = nullptr;
        changed_.notify_all();
      }
    }
  }
}

}  // namespace cuspan::store
