#include "interpose/client/memory/refresher.h"

#include <algorithm>
#include <utility>

#include "interpose/client/base/background_thread.h"

namespace cuspan {
namespace {

// Due times come from threads of the program on their way to the next launch, and waking another
// thread takes microseconds. For a while after the last refresh, this thread therefore sleeps no
// longer than the usual delay of due times.
constexpr std::chrono::microseconds kBackoff{150};
constexpr std::chrono::milliseconds kLingers{20};

}  // namespace

Refresher::~Refresher() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

bool Refresher::Start() {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = StartBackgroundThread("cuspan-refresh", [this] { Serve(); });
  return thread_.joinable();
}

void Refresher::CallBy(Time when) {
  {
    const MutexLock lock(mutex_);
    if (when >= next_) return;
    next_ = when;
    if (when >= asleep_until_) return;
  }
  changed_.notify_one();
}

void Refresher::Run(std::function<void()> job) {
  {
    const MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Refresher::Serve() {
  MutexLock lock(mutex_);
  Time last{};
  while (!ends_) {
    if (!jobs_.empty()) {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
      continue;
    }
    const Time now = Clock::now();
    if (now < next_) {
      asleep_until_ = now - last < kLingers ? std::min(next_, now + kBackoff) : next_;
      // Idle: ends with new work, or at this time.
      if (asleep_until_ == Time::max())
        changed_.wait(lock);
      else
        changed_.wait_until(lock, asleep_until_);
      asleep_until_ = Time::min();
      continue;
    }
    last = now;
    next_ = Time::max();
    lock.unlock();
    const std::optional<Time> again = refresh_(now);
    lock.lock();
    if (again && *again < next_) next_ = *again;
  }
}

}  // namespace cuspan
