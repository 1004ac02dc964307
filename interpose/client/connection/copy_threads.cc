#include "interpose/client/connection/copy_threads.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/cores.h"
#include "interpose/client/base/background_thread.h"
#include "protocol/channel/bell.h"

namespace cuspan {
namespace {

// Threads per eight cores, and their maximum: the proxy, the agent and the program need cores, too.
// Measured on 16 cores, copies of 512 MiB of pageable memory: into slots 22, 25, 39 and 25 GB/s
// with 4, 5, 6 and 8 threads, out of them 49, 46, 41 and 37.
struct Share {
  int of_eight;
  int most;
};
constexpr Share kIntoSlots{3, 6};
constexpr Share kOutOfSlots{2, 4};

unsigned ThreadsForThisMachine(const Share& share) {
  return static_cast<unsigned>(std::clamp(AvailableCores() * share.of_eight / 8, 1, share.most));
}

}  // namespace

CopyThreads::CopyThreads(Way way)
    : count_(ThreadsForThisMachine(way == Way::kIn ? kIntoSlots : kOutOfSlots)) {}

void CopyThreads::Run(std::function<void()> task) {
  std::size_t waiting = 0;
  {
    const MutexLock lock(mutex_);
    if (threads_.empty()) {
      for (unsigned i = 0; i < count_; ++i) {
        std::thread thread = StartBackgroundThread("cuspan-copy", [this] { Loop(); });
        if (!thread.joinable()) break;
        threads_.push_back(std::move(thread));
      }
    }
    if (!threads_.empty()) {
      tasks_.push_back(std::exchange(task, nullptr));
      waiting = waiting_.fetch_add(1) + 1;
    }
  }
  if (task != nullptr) return task();
  // A thread checks once more with the mutex before it sleeps.
  if (polling_.load() < waiting) arrived_.notify_one();
}

void CopyThreads::Loop() {
  const auto look = WaitStages::ForThisMachine().yield;
  for (;;) {
    // Polls first: pieces of one copy follow each other faster than a thread wakes up.
    const auto end = std::chrono::steady_clock::now() + look;
    polling_.fetch_add(1);
    while (waiting_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < end)
      __builtin_ia32_pause();
    polling_.fetch_sub(1);
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      // Idle until the process ends.
      arrived_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return !tasks_.empty(); });
      task = std::move(tasks_.front());
      tasks_.pop_front();
      waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    task();
  }
}

}  // namespace cuspan
