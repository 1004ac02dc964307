// What a device has been asked to do, and in which order: operations that wait
// for other operations.
//
// An operation is begun when those it comes after are done. It may carry a task, or several,
// for the worker pool; without one (an event's record, a wait) it is done as
// soon as it may begin. Nothing is polled: the end of one begins the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "proxy/softgpu/rt/pool.h"

namespace cuspan::softgpu {

// Tasks that are to be executed one after another, each found when the one before is through.
class TaskSequence {
 public:
  virtual ~TaskSequence() = default;
  // The next task; null when there are no more. One thread at a time calls, some of them with
  // locks: what this does must not wait, nor add work.
  virtual std::unique_ptr<Task> Next() = 0;
};

class Operation {
 public:
  // `task` may be null. An operation belongs to one OperationQueue.
  explicit Operation(std::unique_ptr<Task> task = nullptr) : task_(std::move(task)) {}
  explicit Operation(std::unique_ptr<TaskSequence> tasks) : tasks_(std::move(tasks)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire) != 0; }
  // Sleeps until done.
  void Wait() const { done_.wait(0, std::memory_order_acquire); }
  // When it was done, on the steady clock; only after done().
  std::uint64_t done_nanoseconds() const { return done_nanoseconds_; }

 private:
  friend class OperationQueue;
  std::unique_ptr<Task> task_;           // The one that is executed, or is to be.
  std::unique_ptr<TaskSequence> tasks_;  // Where more come from; null: there are no more.
  std::atomic<std::uint32_t> done_{0};
  std::uint64_t done_nanoseconds_ = 0;
  // Guarded by the queue's mutex.
  std::uint32_t waits_for_ = 0;
  std::vector<std::shared_ptr<Operation>> followers_;
};

using OperationPtr = std::shared_ptr<Operation>;

// Any thread calls.
class OperationQueue {
 public:
  // Copies run on `copies`, memory operations on `memory`, everything else on `pool`.
  OperationQueue(WorkerPool& pool, WorkerPool& copies, WorkerPool& memory)
      : pool_(pool), copies_(copies), memory_(memory) {}
  explicit OperationQueue(WorkerPool& pool) : OperationQueue(pool, pool, pool) {}

  // `operation` is executed after all of `after` (null entries do not count).
  // Whoever needs a consistent set of `after` holds a lock of his own meanwhile.
  void Submit(const OperationPtr& operation, std::span<const OperationPtr> after);

  WorkerPool& pool() { return pool_; }
  // As WorkerPool::finished_units, of all that executes.
  std::uint64_t finished_units() const {
    return pool_.finished_units() + copies_.finished_units() + memory_.finished_units();
  }

 private:
  // Hands the operation's next task to the pool; false when there is nothing to execute.
  bool BeginTask(const OperationPtr& operation);
  WorkerPool& PoolOf(Task::Engine engine) const;
  // Its task has finished: begins what the task asks for next, or finishes the operation.
  void GoOn(const OperationPtr& operation);
  void Finish(OperationPtr operation);

  WorkerPool& pool_;
  WorkerPool& copies_;
  WorkerPool& memory_;
  std::mutex mutex_;
};

}  // namespace cuspan::softgpu
