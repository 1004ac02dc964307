#include "proxy/nccl/call_thread.h"

#include <system_error>

#include "common/log.h"

namespace cuspan::proxy {

Result<std::unique_ptr<CallThread>> CallThread::Start(const Device& device,
                                                      std::chrono::milliseconds period,
                                                      std::function<void()> idle) {
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, Bell::Create());
  bell.CloseFd();
  std::unique_ptr<CallThread> made(new CallThread(std::move(bell), period, std::move(idle)));
  try {
    made->thread_ = std::thread([at = made.get(), &device] { at->Loop(device); });
  } catch (const std::system_error& error) {
    return Status::Exhausted("cannot start the thread for NCCL's calls: {}", error.what());
  }
  return made;
}

CallThread::~CallThread() {
  ending_.store(true, std::memory_order_release);
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
}

void CallThread::Run(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  waiting_.fetch_add(1, std::memory_order_release);
  bell_.Ring();
}

std::function<void()> CallThread::Next() {
  const MutexLock lock(mutex_);
  if (tasks_.empty()) return {};
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return task;
}

void CallThread::Loop(const Device& device) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  const WaitStages stages = WaitStages::ForThisMachine();
  bool woken = false;
  while (!ending_.load(std::memory_order_acquire)) {
    // Spins only after a task: there may be many of these threads.
    woken = bell_.Wait(
        [this] {
          return waiting_.load(std::memory_order_acquire) != 0 ||
                 ending_.load(std::memory_order_acquire);
        },
        period_, woken ? stages : WaitStages{});
    if (!woken) {
      if (idle_) idle_();
      continue;
    }
    if (const std::function<void()> task = Next()) task();
  }
}

}  // namespace cuspan::proxy
