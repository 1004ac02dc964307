#include "proxy/files/locking_thread.h"

#include <utility>
#include <vector>

namespace cuspan::proxy {

void LockingThread::Finish(std::shared_ptr<LockingThread> thread) {
  // It may wait for a kernel that does not end.
  if (thread->in_driver_)
    thread->thread_.Abandon();
  else
    thread->thread_.End();
  static auto* const kFinished = new std::vector<std::shared_ptr<LockingThread>>;
  kFinished->push_back(std::move(thread));
}

Status LockingThread::Run(std::function<void()> locks) {
  {
    const MutexLock lock(starting_);
    CUSPAN_RETURN_IF_ERROR(thread_.Start());
  }
  thread_.Run(std::move(locks));
  return Status::Ok();
}

void LockingThread::Unlock(std::shared_ptr<void> object) {
  {
    const MutexLock lock(keeping_);
    unlocked_.push_back(std::move(object));
  }
  if (ended_) return;
  thread_.Run([this] {
    std::shared_ptr<void> first;
    {
      const MutexLock lock(keeping_);
      if (ended_ || unlocked_.empty()) return;
      in_driver_ = true;
      first = std::move(unlocked_.front());
      unlocked_.pop_front();
    }
    first.reset();
    in_driver_ = false;
  });
}

}  // namespace cuspan::proxy
