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
  // The written output is not flushed yet.
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
  // The holder of a stream's lock may wait for this thread's host function.
  if (ThisThread().in_host_call) return;
  MutexLock lock(mutex_);
  while (!kept_.empty()) {
    std::FILE* const stream = StreamOf(kept_.front());
    // Lock order: a stream's lock before mutex_.
    lock.unlock();
    ::flockfile(stream);
    lock.lock();
    WriteFor(stream);
    ::funlockfile(stream);
  }
  has_kept_.store(false, std::memory_order_release);
  lock.unlock();
  // Flushes like CUDA: the output of a program aborted afterwards is visible.
  std::fflush(stdout);
}

}  // namespace cuspan
