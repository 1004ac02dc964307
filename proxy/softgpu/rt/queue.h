// Operations of a device and their order: operations wait for other operations.
//
// An operation begins when its predecessors are done. It may carry one or more tasks for the worker
// pool. Without a task (an event's record, a wait) it is done at once. Nothing is polled: the end
// of one begins the next.
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

// Tasks executed one after another, each determined when the previous one has finished.
class TaskSequence {
 public:
  virtual ~TaskSequence() = default;
  // Returns the next task, or null at the end. Called by one thread at a time, sometimes with locks
  // held: must not wait, nor add work.
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
  // Blocks until done.
  void Wait() const { done_.wait(0, std::memory_order_acquire); }
  // Time of completion, on the steady clock; only after done().
  std::uint64_t done_nanoseconds() const { return done_nanoseconds_; }

 private:
  friend class OperationQueue;
  std::unique_ptr<Task> task_;           // Current or next task.
  std::unique_ptr<TaskSequence> tasks_;  // Source of more tasks; null: none.
  std::atomic<std::uint32_t> done_{0};
  std::uint64_t done_nanoseconds_ = 0;
  // Guarded by the queue's mutex.
  std::uint32_t waits_for_ = 0;
  std::vector<std::shared_ptr<Operation>> followers_;
};

using OperationPtr = std::shared_ptr<Operation>;

// Threads: any.
class OperationQueue {
 public:
  // Copies run on `copies`, memory operations on `memory`, everything else on `pool`.
  OperationQueue(WorkerPool& pool, WorkerPool& copies, WorkerPool& memory)
      : pool_(pool), copies_(copies), memory_(memory) {}
  explicit OperationQueue(WorkerPool& pool) : OperationQueue(pool, pool, pool) {}

  // Executes `operation` after all of `after` (null entries are ignored). A caller needing a
  // consistent `after` holds its own lock meanwhile.
  void Submit(const OperationPtr& operation, std::span<const OperationPtr> after);

  WorkerPool& pool() { return pool_; }
  // Sum of WorkerPool::finished_units.
  std::uint64_t finished_units() const {
    return pool_.finished_units() + copies_.finished_units() + memory_.finished_units();
  }

 private:
  // Passes the operation's next task to the pool; false if nothing is left to execute.
  bool BeginTask(const OperationPtr& operation);
  WorkerPool& PoolOf(Task::Engine engine) const;
  // Called when its task has finished: begins the next task, or finishes the operation.
  void GoOn(const OperationPtr& operation);
  void Finish(OperationPtr operation);

  WorkerPool& pool_;
  WorkerPool& copies_;
  WorkerPool& memory_;
  std::mutex mutex_;
};

}  // namespace cuspan::softgpu
