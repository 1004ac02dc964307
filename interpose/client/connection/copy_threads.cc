#include "interpose/client/connection/copy_threads.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "interpose/client/background_thread.h"
#include "protocol/channel/bell.h"

namespace cuspan {
namespace {

// With four a GPU's link is busy (measured on 16 cores: 8.5, 15, 30 GB/s with 1, 2, 4), and the
// proxy, the agent and the program itself want cores, too.
constexpr int kMostThreads = 4;
constexpr int kCoresForEach = 4;

unsigned ThreadsForThisMachine() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  return static_cast<unsigned>(std::clamp(cores / kCoresForEach, 1, kMostThreads));
}

}  // namespace

CopyThreads::CopyThreads() : count_(ThreadsForThisMachine()) {}

void CopyThreads::Run(std::function<void()> task) {
  std::size_t waiting = 0;
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    waiting = waiting_.fetch_add(1) + 1;
    if (threads_.empty())
      for (unsigned i = 0; i < count_; ++i)
        threads_.push_back(StartBackgroundThread("cuspan-copy", [this] { Loop(); }));
  }
  // Who stops looking looks once more, with the mutex.
  if (looking_.load() < waiting) arrived_.notify_one();
}

void CopyThreads::Loop() {
  const auto look = WaitStages::ForThisMachine().yield;
  for (;;) {
    // Pieces of one copy follow each other sooner than a sleeper wakes.
    const auto end = std::chrono::steady_clock::now() + look;
    looking_.fetch_add(1);
    while (waiting_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < end)
      __builtin_ia32_pause();
    looking_.fetch_sub(1);
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      arrived_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return !tasks_.empty(); });
      task = std::move(tasks_.front());
      tasks_.pop_front();
      waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    task();
  }
}

}  // namespace cuspan
