// Worker threads executing blocks and copies: one pool for all software GPUs of the process.
//
// A task is a number of units (blocks of a grid, pieces of a copy). Workers take units of all tasks
// in rotation, higher priority first. A unit may stay resident on its worker (a block spinning on a
// value of another block). The worker then takes more units and resumes the resident ones in
// rotation.
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

// A unit begun and not yet finished.
class Resident {
 public:
  virtual ~Resident() = default;
  // Continues; true if it has finished (or failed).
  virtual bool Resume(Worker& worker) = 0;
  // Called after it has finished: the worker may reuse the object.
  virtual void Release(Worker& worker) = 0;
};

class Task {
 public:
  // `all_resident`: every unit may begin, regardless of the number of resident ones.
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
  // Begins unit `unit` (below units()). Returns null if it has finished, else its rest.
  virtual Resident* Start(Worker& worker, std::uint64_t unit) = 0;
  // Executes the units from `begin` to `end` to completion, if cheaper than one by one. Else
  // returns false.
  virtual bool Execute(Worker&, std::uint64_t /*begin*/, std::uint64_t /*end*/) { return false; }
  // Copies have their own engine, so kernels do not delay them. Waits for values in memory have
  // one, too, so they never block the writer of the value.
  enum class Engine : std::uint8_t { kCompute, kCopy, kMemory };
  virtual Engine engine() const { return Engine::kCompute; }
  // Called while it exceeds the pool's limit, until it is cancelled.
  virtual void Overdue(std::chrono::seconds) {}
  // Called once, after its resident units have waited for `waited` and other units cannot begin
  // before they end.
  virtual void Stuck(std::chrono::seconds /*waited*/, std::uint64_t /*resident*/) {}
  // Number of GPU threads of a unit; at least 1.
  virtual std::uint64_t threads_of_unit() const { return 1; }
  // Returns further work to execute before it counts as done. Called after all units have finished.
  virtual std::unique_ptr<Task> Next() { return nullptr; }

  std::uint64_t units() const { return units_; }
  // True if it is part of a possibly endless loop: its finished units are no sign of progress. Set
  // before it is added.
  bool repeats() const { return repeats_; }
  void SetRepeats() { repeats_ = true; }

 private:
  friend class WorkerPool;
  const std::uint64_t units_;
  const std::uint64_t units_at_a_time_;
  const int priority_;  // Lower numbers go first, as in CUDA.
  const bool all_resident_;
  bool repeats_ = false;
  // Guarded by the pool's mutex.
  std::uint64_t next_ = 0;
  std::chrono::steady_clock::time_point begun_{};  // Time of taking its first unit.
  std::atomic<std::uint64_t> finished_{0};
  std::atomic<bool> stuck_{false};  // True once Stuck was called.
  std::function<void()> on_finished_;
};

// Resources of one worker thread. Threads: only this one.
class Worker {
 public:
  Worker();
  ~Worker();

  FaultGuard& guard() { return guard_; }
  StackPool& stacks() { return stacks_; }

  // Calls `function(argument)` on its own stack. False if it faulted (see guard().fault()) or no
  // memory was left for the stack.
  bool RunGuarded(void (*function)(void*), void* argument);

  // Blocks are large, so finished ones are kept for reuse.
  std::unique_ptr<Block> AcquireBlock();
  void GiveBlock(std::unique_ptr<Block> block);

 private:
  FaultGuard guard_;
  StackPool stacks_;
  std::vector<std::unique_ptr<Block>> unused_blocks_;
};

class WorkerPool {
 public:
  // Starts `threads` (at least 1) workers. Tasks running longer than `limit` are notified
  // (Overdue); 0: never.
  explicit WorkerPool(unsigned threads, std::chrono::seconds limit = {});
  // Waits for units already begun; tasks must be finished.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Executes `task`, then calls `on_finished` on a worker. `task` must live until this call, and
  // have at least one unit.
  void Add(Task& task, std::function<void()> on_finished);

  // Stops compiled code of cancelled tasks, wherever it is. Called after some task may have been
  // cancelled; returns at once.
  void StopCancelled();

  // Number of finished units, excluding repeating tasks. A constant value means no progress.
  std::uint64_t finished_units() const { return finished_units_.load(std::memory_order_relaxed); }

  // Fewer than requested if the system allows no more; 0: nothing can be executed.
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }

 private:
  // Current work of a worker.
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
  // Thread stopping cancelled tasks, and notifying overdue tasks.
  void Watch();
  // True if any cancelled task is still running.
  bool InterruptCancelled();
  void ReportOverdue();
  // Returns the next units to execute. If `wait`, blocks until there are some. Otherwise, and at
  // shutdown, returns an empty share (null task). `full`: only tasks with all_resident.
  Share Acquire(bool wait, bool full);
  void Execute(Worker& worker, Post& post, const Share& share, std::deque<Parked>& parked);
  // Maximum number of units like this task's resident on a worker.
  std::size_t MaxResident(const Task& task) const;
  // Calls Stuck of their tasks, once per task.
  static void ReportStuck(const std::deque<Parked>& parked);
  // Resumes each once; true if any has finished.
  bool ResumeAll(Worker& worker, Post& post, std::deque<Parked>& parked);
  void Finish(Task& task, std::uint64_t units);

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Task*> open_;                 // Tasks with units left to begin, by priority.
  std::atomic<std::uint64_t> offered_{0};  // open_.size(), readable without the mutex.
  std::vector<Task*> running_;             // Tasks not finished.
  bool stopping_ = false;
  std::atomic<std::uint64_t> finished_units_{0};

  const std::chrono::seconds limit_;
  std::mutex watch_mutex_;  // Never held together with another.
  std::condition_variable watch_;
  bool stop_wanted_ = false;
  bool watch_ends_ = false;
  std::thread watcher_;  // Started when first needed.

  std::deque<Post> posts_;
  std::vector<std::thread> threads_;
};

}  // namespace cuspan::softgpu
