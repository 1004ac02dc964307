#include "interpose/client/memory/refresher.h"

#include <utility>

#include "interpose/client/background_thread.h"

namespace cuspan {

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

void Refresher::Start() {
  if (!thread_.joinable()) thread_ = StartBackgroundThread("cuspan-refresh", [this] { Serve(); });
}

void Refresher::CallBy(Time when) {
  {
    const MutexLock lock(mutex_);
    if (when >= next_) return;
    next_ = when;
    Start();
  }
  changed_.notify_one();
}

void Refresher::Run(std::function<void()> job) {
  {
    const MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
    Start();
  }
  changed_.notify_one();
}

void Refresher::Serve() {
  MutexLock lock(mutex_);
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
      if (next_ == Time::max())
        changed_.wait(lock);
      else
        changed_.wait_until(lock, next_);
      continue;
    }
    next_ = Time::max();
    lock.unlock();
    const std::optional<Time> again = refresh_(now);
    lock.lock();
    if (again && *again < next_) next_ = *again;
  }
}

}  // namespace cuspan
