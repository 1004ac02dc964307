// The worker threads that execute blocks and copies: one pool for all software
// GPUs of the process.
//
// A task is a number of units (blocks of a grid, pieces of a copy). Workers
// take units of the tasks in turn, higher priority first. A unit may stay
// resident on its worker (a block that spins on something another block must
// do); the worker then takes more units and resumes the resident ones in turn.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "proxy/softgpu/rt/fault.h"
#include "proxy/softgpu/rt/stack.h"

namespace cuspan::softgpu {

class Block;
class Worker;

// A unit that was begun and is not finished.
class Resident {
 public:
  virtual ~Resident() = default;
  // Goes on; true when it finished (or failed).
  virtual bool Resume(Worker& worker) = 0;
  // After it finished: the worker may use the object again.
  virtual void Release(Worker& worker) = 0;
};

class Task {
 public:
  // `all_resident`: every unit may be begun however many are resident already.
  Task(std::uint64_t units, std::uint64_t units_at_a_time, int priority, bool all_resident)
      : units_(units),
        units_at_a_time_(units_at_a_time),
        priority_(priority),
        all_resident_(all_resident) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // True when the units need not be executed any more.
  virtual bool Cancelled() const = 0;
  // Begins unit `unit` (below units()); null when it finished, else what is left of it.
  virtual Resident* Start(Worker& worker, std::uint64_t unit) = 0;
  // Executes the units from `begin` to `end` to their ends, if that is cheaper than one by one;
  // false when it is not.
  virtual bool Execute(Worker&, std::uint64_t /*begin*/, std::uint64_t /*end*/) { return false; }
  // Copies have an engine of their own, so that kernels do not hold them up. So have waits for
  // values in memory, so that none takes the place of what will write the value.
  enum class Engine : std::uint8_t { kCompute, kCopy, kMemory };
  virtual Engine engine() const { return Engine::kCompute; }
  // It has run for longer than the pool's limit: called until it is cancelled.
  virtual void Overdue(std::chrono::seconds) {}
  // Units of it that are resident have waited for so long, and other units cannot begin before they
  // end. Called once.
  virtual void Stuck(std::chrono::seconds /*waited*/, std::uint64_t /*resident*/) {}
  // How many threads of the GPU a unit has; at least 1.
  virtual std::uint64_t threads_of_unit() const { return 1; }
  // After all units finished: what must be executed, too, before what the task stands for is done.
  virtual std::unique_ptr<Task> Next() { return nullptr; }

  std::uint64_t units() const { return units_; }
  // It is part of a loop, perhaps an endless one: that its units finish does not mean that work
  // gets on. Set before it is added.
  bool repeats() const { return repeats_; }
  void SetRepeats() { repeats_ = true; }

 private:
  friend class WorkerPool;
  const std::uint64_t units_;
  const std::uint64_t units_at_a_time_;
  const int priority_;  // As in CUDA: lower numbers go first.
  const bool all_resident_;
  bool repeats_ = false;
  // Guarded by the pool's mutex.
  std::uint64_t next_ = 0;
  std::chrono::steady_clock::time_point begun_{};  // When its first unit was taken.
  std::atomic<std::uint64_t> finished_{0};
  std::atomic<bool> stuck_{false};  // Stuck was called.
  std::function<void()> on_finished_;
};

// What one worker thread owns. Only its thread calls.
class Worker {
 public:
  Worker();
  ~Worker();

  FaultGuard& guard() { return guard_; }
  StackPool& stacks() { return stacks_; }

  // Calls `function(argument)` on a stack of its own; false when it faulted
  // (guard().fault() says how) or when there was no memory for the stack.
  bool RunGuarded(void (*function)(void*), void* argument);

  // Blocks are large, so finished ones are kept for the next.
  std::unique_ptr<Block> TakeBlock();
  void GiveBlock(std::unique_ptr<Block> block);

 private:
  FaultGuard guard_;
  StackPool stacks_;
  std::vector<std::unique_ptr<Block>> unused_blocks_;
};

class WorkerPool {
 public:
  // Starts `threads` (at least 1) workers. Tasks that run for longer than `limit` are told so;
  // 0: never.
  explicit WorkerPool(unsigned threads, std::chrono::seconds limit = {});
  // Waits for what the workers have begun; tasks must be finished.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Executes `task`, then calls `on_finished` on some worker. `task` must live
  // until that call. A task of 0 units is not allowed.
  void Add(Task& task, std::function<void()> on_finished);

  // Some task may have been cancelled: compiled code that works for such a task is stopped,
  // wherever it is. Returns at once.
  void StopCancelled();

  // Counts units that have finished, but for those of tasks that repeat: while it stays, nothing
  // gets on.
  std::uint64_t finished_units() const { return finished_units_.load(std::memory_order_relaxed); }

  // Fewer than were asked for where the system allows no more; 0: nothing can be done.
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }

 private:
  // What a worker works for at this moment.
  struct Post {
    std::mutex mutex;
    const Task* task = nullptr;
    pthread_t thread{};
  };
  class AtPost;

  struct Share {  // Units [begin, end) of a task.
    Task* task = nullptr;
    std::uint64_t begin = 0, end = 0;
  };
  struct Parked {
    Task* task;
    Resident* resident;
  };

  void Main(Post& post);
  void StartWatcher();
  // The thread that stops what was cancelled, and tells tasks that they are overdue.
  void Watch();
  // True when something that was cancelled runs still.
  bool InterruptCancelled();
  void TellOverdue();
  // The next units to execute. Waits for some when `wait`; an empty share (null
  // task) otherwise or at shutdown. `full`: only tasks with all_resident.
  Share Take(bool wait, bool full);
  void Execute(Worker& worker, Post& post, const Share& share, std::deque<Parked>& parked);
  // So many units like those of the task may be resident on a worker.
  std::size_t MostPlaces(const Task& task) const;
  // Calls Stuck of their tasks, once for each task.
  static void TellStuck(const std::deque<Parked>& parked);
  // Resumes each once; true when any of them finished.
  bool ResumeAll(Worker& worker, Post& post, std::deque<Parked>& parked);
  void Finish(Task& task, std::uint64_t units);

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Task*> open_;                 // Tasks with units left to begin, by priority.
  std::atomic<std::uint64_t> offered_{0};  // open_.size(), readable without the mutex.
  std::vector<Task*> running_;             // Those not finished.
  bool stopping_ = false;
  std::atomic<std::uint64_t> finished_units_{0};

  const std::chrono::seconds limit_;
  std::mutex watch_mutex_;  // Never held together with another.
  std::condition_variable watch_;
  bool stop_wanted_ = false;
  bool watch_ends_ = false;
  std::thread watcher_;  // Started when it is first needed.

  std::deque<Post> posts_;
  std::vector<std::thread> threads_;
};

}  // namespace cuspan::softgpu
