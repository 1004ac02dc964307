#include "interpose/client/host_calls.h"

#include <pthread.h>

#include <utility>

#include "interpose/client/base/background_thread.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/base/thread_state.h"

namespace cuspan {

CUresult HostCallThread::Start() {
  const MutexLock lock(mutex_);
  if (!started_) started_ = StartPlainThread("cuspan-hostcall", &Thread, this);
  return started_ ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void HostCallThread::Run(Call call) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(call));
  }
  arrived_.notify_one();
}

// Owns no objects with destructors, and is not noexcept: pthread_exit unwinds from the function
// through this frame, by the program's unwinder.
void* HostCallThread::Thread(void* calls) {
  // Only the function may be cancelled.
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  for (;;) {
    const HostFunction next = static_cast<HostCallThread*>(calls)->Next();
    ::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
    if (next.function != nullptr) next.function(next.data);
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    static_cast<HostCallThread*>(calls)->Over();
  }
}

HostFunction HostCallThread::Next() {
  // CUDA forbids these functions to use the devices.
  ThisThread().in_host_call = true;
  {
    MutexLock lock(mutex_);
    // Idle, until the process ends.
    arrived_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) { return !waiting_.empty(); });
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
  }
  return current_.choose();
}

void HostCallThread::Over() {
  if (current_.over) current_.over();
  current_ = {};
}

// The stream waits for a signal, sent after the function has run.
CUresult HostCalls::Call(const StreamTarget& target, Choose call) {
  if (const CUresult started = thread_.Start(); started != CUDA_SUCCESS) return started;
  StreamWaitSignal wait;
  wait.stream = target.stream;
  wait.signal = NextHandle();
  pending_.fetch_add(1, std::memory_order_relaxed);
  // The function sees the stream's work so far in shared memory, and the stream sees the function's
  // stores.
  auto choose = [call = std::move(call),
                 stream = std::weak_ptr<ContextConnection>(target.connection)](CUresult reached) {
    const std::shared_ptr<ContextConnection> connection = stream.lock();
    const bool alive = connection != nullptr && reached == CUDA_SUCCESS;
    ThisThread().host_call_context = alive ? &connection->context() : nullptr;
    if (alive) static_cast<void>(connection->Synchronized(false));
    return call(reached);
  };
  auto over = [this, stream = std::weak_ptr<ContextConnection>(target.connection),
               signal = wait.signal] {
    const std::shared_ptr<ContextConnection> connection = stream.lock();
    pending_.fetch_sub(1, std::memory_order_release);
    if (connection == nullptr) return;
    static_cast<void>(connection->coherence().SendUpdates());
    Signal over;
    over.signal = signal;
    static_cast<void>(connection->Post(over));  // A lost device has no waiting streams.
  };
  const CUresult result = events_.WhenReached(
      target, [this, choose = std::move(choose), over = std::move(over)](CUresult reached) {
        thread_.Run({[choose, reached] { return choose(reached); }, over});
      });
  return result != CUDA_SUCCESS ? result : target.connection->Post(wait);
}

}  // namespace cuspan
