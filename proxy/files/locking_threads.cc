#include "proxy/files/locking_threads.h"

#include <utility>
#include <vector>

namespace cuspan::proxy {

void LockingThreads::Finish(std::shared_ptr<LockingThreads> threads) {
  threads->locks_.End();
  // It may wait for a kernel that does not end.
  if (threads->in_driver_)
    threads->unlocks_.Abandon();
  else
    threads->unlocks_.End();
  static auto* const kFinished = new std::vector<std::shared_ptr<LockingThreads>>;
  kFinished->push_back(std::move(threads));
}

void LockingThreads::End() {
  // Before, or behind the look of a thread that unlocks.
  const MutexLock lock(keeping_);
  ended_ = true;
}

Status LockingThreads::Run(std::function<void()> locks) {
  {
    const MutexLock lock(starting_);
    CUSPAN_RETURN_IF_ERROR(locks_.Start());
    CUSPAN_RETURN_IF_ERROR(unlocks_.Start());
  }
  locks_.Run(std::move(locks));
  return Status::Ok();
}

void LockingThreads::Unlock(std::shared_ptr<void> object) {
  {
    const MutexLock lock(keeping_);
    unlocked_.push_back(std::move(object));
  }
  if (ended_) return;
  unlocks_.Run([this] {
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
