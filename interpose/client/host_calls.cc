#include "interpose/client/host_calls.h"

#include <utility>

#include "interpose/client/background_thread.h"
#include "interpose/client/handles.h"
#include "interpose/client/session.h"
#include "interpose/client/thread_state.h"

namespace cuspan {

void HostCalls::Run(std::function<void()> function) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(function));
    if (!thread_.joinable()) thread_ = StartBackgroundThread("cuspan-hostcall", [this] { Loop(); });
  }
  arrived_.notify_one();
}

void HostCalls::Loop() {
  // What runs here is what CUDA forbids to use the devices.
  ThisThread().in_host_call = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return !waiting_.empty(); });
    const std::function<void()> function = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

CUresult Session::WhenReached(const StreamTarget& target, HostCall call) {
  std::uint64_t event = 0;
  if (const CUresult result = CreateEventOn(target.link, CU_EVENT_DISABLE_TIMING, &event);
      result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<Event> reached = FindEvent(event);
  {
    std::lock_guard lock(reached->mutex);
    reached->attended.fetch_add(1);
    reached->then = std::move(call);
  }
  const CUresult result = RecordEvent(event, target);
  const CUresult destroyed = DestroyEvent(event);
  return result != CUDA_SUCCESS ? result : destroyed;
}

// The stream stops at a signal, which is given when the function has run.
CUresult Session::CallHost(const StreamTarget& target, HostCall call) {
  StreamWaitSignal wait;
  wait.stream = target.stream;
  wait.signal = NextHandle();
  pending_host_calls_.fetch_add(1, std::memory_order_relaxed);
  auto run = [this, call = std::move(call), stream = std::weak_ptr<Link>(target.link),
              signal = wait.signal](CUresult reached) {
    // The function finds in shared memory what the stream did so far, and the stream what the
    // function did.
    const std::shared_ptr<Link> link = stream.lock();
    if (link != nullptr && reached == CUDA_SUCCESS) static_cast<void>(link->Synchronized(false));
    call(reached);
    pending_host_calls_.fetch_sub(1, std::memory_order_release);
    if (link == nullptr) return;
    static_cast<void>(link->SendNews());
    Signal over;
    over.signal = signal;
    static_cast<void>(link->Post(over));  // A lost device has nothing that waits.
  };
  const CUresult result = WhenReached(target, [this, run = std::move(run)](CUresult reached) {
    host_calls_.Run([run, reached] { run(reached); });
  });
  return result != CUDA_SUCCESS ? result : target.link->Post(wait);
}

}  // namespace cuspan
