// What kernels print, on its way into the program's own stdout and stderr.
#pragma once

#include <atomic>
#include <cstdio>
#include <deque>
#include <string>

#include "common/mutex.h"

namespace cuspan {

// A thread of the program may wait for a device while it holds the lock of its stdout (flockfile),
// and what comes from the device is received by another thread. That must not wait for the lock:
// then neither would go on. What finds it taken is kept for the threads that wait for the device,
// the one that holds the lock among them: they write it before they hear that the device is done.
class KernelOutput {
 public:
  // Any thread; does not wait for others that write.
  void Write(bool error, std::string text);
  // Writes what is kept and flushes stdout, if anything came; a thread of the program, before it
  // returns from waiting for a device. One that runs functions in a stream's order leaves it to the
  // others.
  void WriteKept() {
    if (has_kept_.load(std::memory_order_acquire)) WriteAll();
  }

 private:
  struct Piece {
    bool error;
    std::string text;
  };
  static std::FILE* StreamOf(const Piece& piece) { return piece.error ? stderr : stdout; }
  // What comes first and is for `stream`, whose lock the thread has.
  void WriteFor(std::FILE* stream) CUSPAN_REQUIRES(mutex_);
  void WriteAll();

  Mutex mutex_;  // Held while writing, but never while waiting for a stream's lock.
  std::deque<Piece> kept_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<bool> has_kept_ = false;  // Or stdout is to be flushed.
};

}  // namespace cuspan
