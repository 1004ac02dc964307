#include "interpose/client/connection/kernel_output.h"

#include <cstdio>
#include <utility>

#include "interpose/client/base/thread_state.h"

namespace cuspan {

void KernelOutput::Write(bool error, std::string text) {
  const MutexLock lock(mutex_);
  kept_.push_back({error, std::move(text)});
  while (!kept_.empty()) {
    std::FILE* const stream = StreamOf(kept_.front());
    if (::ftrylockfile(stream) != 0) break;
    WriteFor(stream);
    ::funlockfile(stream);
  }
  // What is written has yet to be flushed.
  has_kept_.store(true, std::memory_order_release);
}

void KernelOutput::WriteFor(std::FILE* stream) {
  while (!kept_.empty() && StreamOf(kept_.front()) == stream) {
    const std::string& text = kept_.front().text;
    std::fwrite(text.data(), 1, text.size(), stream);
    kept_.pop_front();
  }
}

void KernelOutput::WriteAll() {
  // The holder of a stream's lock may wait for the function that this thread is to run.
  if (ThisThread().in_host_call) return;
  MutexLock lock(mutex_);
  while (!kept_.empty()) {
    std::FILE* const stream = StreamOf(kept_.front());
    // Who holds the lock of a stream may wait for mutex_, not the other way round.
    lock.unlock();
    ::flockfile(stream);
    lock.lock();
    WriteFor(stream);
    ::funlockfile(stream);
  }
  has_kept_.store(false, std::memory_order_release);
  lock.unlock();
  // As CUDA does: a program that is aborted afterwards has shown it.
  std::fflush(stdout);
}

}  // namespace cuspan
