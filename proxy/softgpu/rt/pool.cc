#include "proxy/softgpu/rt/pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {
namespace {

// More resident blocks than this on one worker help nobody, and each has stacks.
constexpr std::size_t kMostResident = 8;
constexpr std::size_t kMostUnusedBlocks = 16;
constexpr std::size_t kGuardedStackBytes = 250 * 1024;

// Rounds over resident units that got nowhere: first give up the core, then sleep.
constexpr unsigned kRoundsBeforeSleep = 200;
constexpr std::chrono::microseconds kSleep{50};

// Signals meant for the program that loaded us are not for our threads; faults are.
void BlockSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

struct GuardedCall {
  void (*function)(void*);
  void* argument;
  FaultGuard* guard;
};

void GuardedMain(void* argument) {
  FiberStarted();
  const GuardedCall call = *static_cast<GuardedCall*>(argument);
  call.function(call.argument);
  call.guard->LeaveForGood();
}

}  // namespace

Worker::Worker() = default;
Worker::~Worker() = default;

bool Worker::RunGuarded(void (*function)(void*), void* argument) {
  Stack* stack = stacks_.Take(kGuardedStackBytes);
  if (stack == nullptr) return false;
  GuardedCall call{function, argument, &guard_};
  const bool whole = guard_.Enter(Execution::OnStack(*stack, &GuardedMain, &call));
  stacks_.Give(stack);
  return whole;
}

std::unique_ptr<Block> Worker::TakeBlock() {
  if (unused_blocks_.empty()) return std::make_unique<Block>();
  std::unique_ptr<Block> block = std::move(unused_blocks_.back());
  unused_blocks_.pop_back();
  return block;
}

void Worker::GiveBlock(std::unique_ptr<Block> block) {
  if (unused_blocks_.size() < kMostUnusedBlocks) unused_blocks_.push_back(std::move(block));
}

WorkerPool::WorkerPool(unsigned threads) {
  // New threads inherit the mask, so no signal finds them unprepared.
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BlockSignals();
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) {
    threads_.emplace_back([this] { Main(); });
    pthread_setname_np(threads_.back().native_handle(), "cuspan-softgpu");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Add(Task& task, std::function<void()> on_finished) {
  task.on_finished_ = std::move(on_finished);
  // Once it is open, workers may finish the task, which ends its life.
  const bool many_shares = task.units_ > task.units_at_a_time_;
  {
    std::lock_guard lock(mutex_);
    const auto later = std::find_if(open_.begin(), open_.end(), [&](const Task* other) {
      return other->priority_ > task.priority_;
    });
    open_.insert(later, &task);
    offered_.store(open_.size(), std::memory_order_relaxed);
  }
  if (many_shares) {
    work_.notify_all();
  } else {
    work_.notify_one();
  }
}

WorkerPool::Share WorkerPool::Take(bool wait, bool full) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Task* task) { return !full || task->all_resident_; });
    if (found != open_.end()) {
      Task* task = *found;
      const std::uint64_t end = std::min(task->next_ + task->units_at_a_time_, task->units_);
      const Share share{task, task->next_, end};
      task->next_ = end;
      open_.erase(found);
      if (end < task->units_) {
        // Behind the others of its priority: tasks share the workers.
        const auto later = std::find_if(open_.begin(), open_.end(), [&](const Task* other) {
          return other->priority_ > task->priority_;
        });
        open_.insert(later, task);
      }
      offered_.store(open_.size(), std::memory_order_relaxed);
      return share;
    }
    if (!wait || stopping_) return {};
    work_.wait(lock);
  }
}

void WorkerPool::Execute(Worker& worker, const Share& share, std::deque<Parked>& parked) {
  std::uint64_t finished = 0;
  for (std::uint64_t unit = share.begin; unit < share.end; ++unit) {
    Resident* rest = share.task->Cancelled() ? nullptr : share.task->Start(worker, unit);
    if (rest == nullptr) {
      ++finished;
    } else {
      parked.push_back(Parked{share.task, rest});
    }
  }
  if (finished != 0) Finish(*share.task, finished);
}

bool WorkerPool::ResumeAll(Worker& worker, std::deque<Parked>& parked) {
  bool any_finished = false;
  for (std::size_t left = parked.size(); left > 0; --left) {
    const Parked next = parked.front();
    parked.pop_front();
    if (next.resident->Resume(worker)) {
      next.resident->Release(worker);
      Finish(*next.task, 1);
      any_finished = true;
    } else {
      parked.push_back(next);
    }
  }
  return any_finished;
}

void WorkerPool::Finish(Task& task, std::uint64_t units) {
  // Once these units count, another worker may finish the task, which ends its life.
  const std::uint64_t all = task.units_;
  if (task.finished_.fetch_add(units, std::memory_order_acq_rel) + units != all) return;
  const std::function<void()> on_finished = std::move(task.on_finished_);
  on_finished();
}

void WorkerPool::Main() {
  Worker worker;
  std::deque<Parked> parked;
  unsigned idle_rounds = 0;
  for (;;) {
    const bool full = parked.size() >= kMostResident;
    if (parked.empty() || offered_.load(std::memory_order_relaxed) != 0) {
      const Share share = Take(/*wait=*/parked.empty(), full);
      if (share.task != nullptr) {
        Execute(worker, share, parked);
        idle_rounds = 0;
      } else if (parked.empty()) {
        return;
      }
    }
    if (parked.empty()) continue;
    if (ResumeAll(worker, parked)) {
      idle_rounds = 0;
    } else if (++idle_rounds > kRoundsBeforeSleep) {
      std::this_thread::sleep_for(kSleep);
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace cuspan::softgpu
