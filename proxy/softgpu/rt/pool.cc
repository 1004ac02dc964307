#include "proxy/softgpu/rt/pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/log.h"
#include "common/start_thread.h"
#include "proxy/softgpu/rt/block.h"

namespace cuspan::softgpu {
namespace {

// Limits of resident blocks. More than kFewResident per worker rarely help, and each has stacks. If
// none of them progresses, they may wait for blocks not yet begun, so more are admitted. The other
// two are totals of all workers. Programs have at most as many blocks and threads waiting for each
// other as fit on a GPU.
constexpr std::size_t kFewResident = 8, kMaxResident = 2048, kMaxThreads = 132 * 1024;
constexpr std::chrono::milliseconds kMorePatience{10};
constexpr std::size_t kMaxUnusedBlocks = 16;
constexpr std::size_t kGuardedStackBytes = 250 * 1024;

// Rounds over resident units without progress: first yield the core, then sleep.
constexpr unsigned kRoundsBeforeSleep = 200;
constexpr std::chrono::microseconds kSleep{50};
// Time without the end of any resident unit before Stuck reports them as blocking others.
constexpr std::chrono::seconds kStuckAfter{5};

// Intervals of checking the clock if kernels have a limit, and of signals to a kernel to be
// stopped.
constexpr std::chrono::milliseconds kWatchPeriod{200};
constexpr std::chrono::milliseconds kInterruptPeriod{1};

// Blocks the hosting program's signals on our threads, except faults.
void BlockSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, kStopSignal})
    sigdelset(&signals, fault);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

struct GuardedCall {
  void (*function)(void*);
  void* argument;
  FaultGuard* guard;
};

void* GuardedMain(void* argument) {
  FiberStarted();
  const GuardedCall call = *static_cast<GuardedCall*>(argument);
  call.function(call.argument);
  call.guard->LeaveForGood();
}

}  // namespace

Worker::Worker() = default;
Worker::~Worker() = default;

bool Worker::RunGuarded(void (*function)(void*), void* argument) {
  Stack* stack = stacks_.Acquire(kGuardedStackBytes);
  if (stack == nullptr) return false;
  GuardedCall call{function, argument, &guard_};
  const bool whole = guard_.Enter(Execution::OnStack(*stack, &GuardedMain, &call));
  stacks_.Give(stack);
  return whole;
}

std::unique_ptr<Block> Worker::AcquireBlock() {
  if (unused_blocks_.empty()) return std::make_unique<Block>();
  std::unique_ptr<Block> block = std::move(unused_blocks_.back());
  unused_blocks_.pop_back();
  return block;
}

void Worker::GiveBlock(std::unique_ptr<Block> block) {
  if (unused_blocks_.size() < kMaxUnusedBlocks) unused_blocks_.push_back(std::move(block));
}

// Marks a worker as working for a task, until destroyed.
class WorkerPool::AtPost {
 public:
  AtPost(Post& post, Worker& worker, const Task& task) : post_(post), worker_(worker) {
    {
      std::lock_guard lock(post.mutex);
      post.task = &task;
    }
    worker.guard().SetStopCondition(
        [](const void* wanted) { return static_cast<const Task*>(wanted)->Cancelled(); }, &task);
  }
  ~AtPost() {
    worker_.guard().SetStopCondition(nullptr, nullptr);
    std::lock_guard lock(post_.mutex);
    post_.task = nullptr;
  }
  AtPost(const AtPost&) = delete;
  AtPost& operator=(const AtPost&) = delete;

 private:
  Post& post_;
  Worker& worker_;
};

WorkerPool::WorkerPool(unsigned threads, std::chrono::seconds limit) : limit_(limit) {
  // New threads inherit the mask, so signals cannot reach them before setup.
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BlockSignals();
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) {
    Post& post = posts_.emplace_back();
    std::unique_lock lock(post.mutex);
    Result<std::thread> thread = StartThread("cuspan-softgpu", [this, &post] { Main(post); });
    if (!thread.ok()) {
      LogWarn("software GPU: only {} of {} threads started: {}", i, threads,
              thread.status().message());
      lock.unlock();
      posts_.pop_back();
      break;
    }
    threads_.push_back(std::move(*thread));
    post.thread = threads_.back().native_handle();
  }
  if (limit_.count() != 0) StartWatcher();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void WorkerPool::StartWatcher() {
  Result<std::thread> thread = StartThread("cuspan-watch", [this] { Watch(); });
  if (!thread.ok())
    return LogError("software GPU: kernels running too long cannot be stopped: {}",
                    thread.status().message());
  watcher_ = std::move(*thread);
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  {
    std::lock_guard lock(watch_mutex_);
    watch_ends_ = true;
  }
  watch_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::StopCancelled() {
  std::lock_guard lock(watch_mutex_);
  if (watch_ends_) return;
  stop_wanted_ = true;
  if (watcher_.joinable()) {
    watch_.notify_all();
    return;
  }
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  BlockSignals();
  StartWatcher();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void WorkerPool::Watch() {
  std::unique_lock lock(watch_mutex_);
  while (!watch_ends_) {
    const auto wanted = [this] { return stop_wanted_ || watch_ends_; };
    if (limit_.count() != 0) {
      watch_.wait_for(lock, std::min<std::chrono::milliseconds>(kWatchPeriod, limit_ / 4), wanted);
    } else {
      watch_.wait(lock, wanted);
    }
    stop_wanted_ = false;
    lock.unlock();
    ReportOverdue();
    // Signals have no effect on a worker in our own code, so they are repeated.
    const bool again = InterruptCancelled();
    if (again) std::this_thread::sleep_for(kInterruptPeriod);
    lock.lock();
    stop_wanted_ = stop_wanted_ || again;
  }
}

bool WorkerPool::InterruptCancelled() {
  bool any = false;
  for (Post& post : posts_) {
    std::lock_guard lock(post.mutex);
    if (post.task == nullptr || !post.task->Cancelled()) continue;
    pthread_kill(post.thread, kStopSignal);
    any = true;
  }
  return any;
}

void WorkerPool::ReportOverdue() {
  if (limit_.count() == 0) return;
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  for (Task* task : running_) {
    const bool begun = task->next_ != 0;
    if (begun && now - task->begun_ > limit_ && !task->Cancelled()) task->Overdue(limit_);
  }
}

void WorkerPool::Add(Task& task, std::function<void()> on_finished) {
  task.on_finished_ = std::move(on_finished);
  // Once it is in open_, workers may finish and destroy the task.
  const bool many_shares = task.units_ > task.units_at_a_time_;
  {
    std::lock_guard lock(mutex_);
    running_.push_back(&task);
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

WorkerPool::Share WorkerPool::Acquire(bool wait, bool full) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Task* task) { return !full || task->all_resident_; });
    if (found != open_.end()) {
      Task* task = *found;
      const std::uint64_t end = std::min(task->next_ + task->units_at_a_time_, task->units_);
      const Share share{task, task->next_, end};
      if (task->next_ == 0) task->begun_ = std::chrono::steady_clock::now();
      task->next_ = end;
      open_.erase(found);
      if (end < task->units_) {
        // After the others of its priority: tasks share the workers.
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

void WorkerPool::Execute(Worker& worker, Post& post, const Share& share,
                         std::deque<Parked>& parked) {
  std::uint64_t finished = 0;
  {
    AtPost at_post(post, worker, *share.task);
    std::uint64_t unit = share.begin;
    if (share.end - unit > 1 && !share.task->Cancelled() &&
        share.task->Execute(worker, unit, share.end)) {
      finished = share.end - unit;
      unit = share.end;
    }
    for (; unit < share.end; ++unit) {
      Resident* rest = share.task->Cancelled() ? nullptr : share.task->Start(worker, unit);
      if (rest == nullptr) {
        ++finished;
      } else {
        parked.push_back(Parked{share.task, rest});
      }
    }
  }
  if (finished != 0) Finish(*share.task, finished);
}

bool WorkerPool::ResumeAll(Worker& worker, Post& post, std::deque<Parked>& parked) {
  bool any_finished = false;
  for (std::size_t left = parked.size(); left > 0; --left) {
    const Parked next = parked.front();
    parked.pop_front();
    const bool ended = [&] {
      AtPost at_post(post, worker, *next.task);
      return next.resident->Resume(worker);
    }();
    if (ended) {
      next.resident->Release(worker);
      Finish(*next.task, 1);
      any_finished = true;
    } else {
      parked.push_back(next);
    }
  }
  return any_finished;
}

std::size_t WorkerPool::MaxResident(const Task& task) const {
  const std::size_t all =
      std::min<std::uint64_t>(kMaxResident, kMaxThreads / task.threads_of_unit());
  return std::max<std::size_t>(kFewResident, all / posts_.size());
}

void WorkerPool::ReportStuck(const std::deque<Parked>& parked) {
  for (const Parked& each : parked) {
    if (each.task->stuck_.exchange(true)) continue;
    each.task->Stuck(kStuckAfter, static_cast<std::uint64_t>(std::count_if(
                                      parked.begin(), parked.end(), [&](const Parked& other) {
                                        return other.task == each.task;
                                      })));
  }
}

void WorkerPool::Finish(Task& task, std::uint64_t units) {
  // Once these units count, another worker may finish and destroy the task.
  if (!task.repeats_) finished_units_.fetch_add(units, std::memory_order_relaxed);
  const std::uint64_t all = task.units_;
  if (task.finished_.fetch_add(units, std::memory_order_acq_rel) + units != all) return;
  {
    std::lock_guard lock(mutex_);
    std::erase(running_, &task);
  }
  const std::function<void()> on_finished = std::move(task.on_finished_);
  on_finished();
}

void WorkerPool::Main(Post& post) {
  Worker worker;
  std::deque<Parked> parked;
  unsigned idle_rounds = 0;
  std::size_t places = kFewResident;                   // Maximum of resident units.
  std::chrono::steady_clock::time_point others_since;  // Start of keeping others out.
  for (;;) {
    if (parked.empty()) places = kFewResident;
    const bool full = parked.size() >= places;
    if (parked.empty() || offered_.load(std::memory_order_relaxed) != 0) {
      const Share share = Acquire(/*wait=*/parked.empty(), full);
      if (share.task != nullptr) {
        Execute(worker, post, share, parked);
        idle_rounds = 0;
      } else if (parked.empty()) {
        return;
      }
    }
    if (parked.empty()) continue;
    if (ResumeAll(worker, post, parked)) {
      idle_rounds = 0;
    } else if (++idle_rounds > kRoundsBeforeSleep) {
      const auto now = std::chrono::steady_clock::now();
      const bool others = full && offered_.load(std::memory_order_relaxed) != 0;
      if (!others || idle_rounds == kRoundsBeforeSleep + 1)
        others_since = now;
      else if (now - others_since > kMorePatience && places < MaxResident(*parked.front().task))
        places = std::min(2 * places, MaxResident(*parked.front().task));
      else if (now - others_since > kStuckAfter)
        ReportStuck(parked);
      std::this_thread::sleep_for(kSleep);
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace cuspan::softgpu
