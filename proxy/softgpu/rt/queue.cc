#include "proxy/softgpu/rt/queue.h"

#include <chrono>
#include <utility>

namespace cuspan::softgpu {

void OperationQueue::Submit(const OperationPtr& operation, std::span<const OperationPtr> after) {
  {
    std::lock_guard lock(mutex_);
    for (const OperationPtr& earlier : after) {
      if (earlier == nullptr || earlier->done()) continue;
      earlier->followers_.push_back(operation);
      ++operation->waits_for_;
    }
    if (operation->waits_for_ != 0) return;
  }
  if (!BeginTask(operation)) Finish(operation);
}

bool OperationQueue::BeginTask(const OperationPtr& operation) {
  std::unique_ptr<Task>& task = operation->task_;
  TaskSequence* const more = operation->tasks_.get();
  for (;;) {
    if (task == nullptr && more != nullptr) task = more->Next();
    if (task == nullptr) return false;
    if (task->units() != 0 && !task->Cancelled()) break;
    if (more == nullptr) return false;
    task = nullptr;
  }
  PoolOf(task->engine()).Add(*task, [this, operation] { GoOn(operation); });
  return true;
}

WorkerPool& OperationQueue::PoolOf(Task::Engine engine) const {
  switch (engine) {
    case Task::Engine::kCopy:
      return copies_;
    case Task::Engine::kMemory:
      return memory_;
    default:
      return pool_;
  }
}

void OperationQueue::GoOn(const OperationPtr& operation) {
  std::unique_ptr<Task> next = operation->task_->Next();
  if (next != nullptr && operation->task_->repeats()) next->SetRepeats();
  operation->task_ = std::move(next);
  if (!BeginTask(operation)) Finish(operation);
}

// Loops instead of recursing: thousands of operations may end one after another.
void OperationQueue::Finish(OperationPtr operation) {
  std::vector<OperationPtr> ended = {std::move(operation)};
  while (!ended.empty()) {
    const OperationPtr last = std::move(ended.back());
    ended.pop_back();
    last->task_.reset();
    last->tasks_.reset();
    last->done_nanoseconds_ =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       std::chrono::steady_clock::now().time_since_epoch())
                                       .count());
    std::vector<OperationPtr> ready;
    {
      std::lock_guard lock(mutex_);
      last->done_.store(1, std::memory_order_release);
      for (OperationPtr& follower : last->followers_) {
        if (--follower->waits_for_ == 0) ready.push_back(std::move(follower));
      }
      last->followers_.clear();
    }
    last->done_.notify_all();
    for (OperationPtr& next : ready) {
      if (!BeginTask(next)) ended.push_back(std::move(next));
    }
  }
}

}  // namespace cuspan::softgpu
