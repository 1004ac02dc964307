// Output of kernels (printf), written to the program's own stdout and stderr.
#pragma once

#include <atomic>
#include <cstdio>
#include <deque>
#include <string>

#include "common/mutex.h"

namespace cuspan {

// A thread of the program may wait for a device while it holds the lock of stdout (flockfile).
// Another thread receives the output; if it waited for this lock, both would deadlock. If the lock
// is taken, the output is kept. Threads waiting for the device, the lock's holder among them, write
// it before their wait returns.
class KernelOutput {
 public:
  // Threads: any. Does not wait for a stream's lock.
  void Write(bool error, std::string text);
  // Writes the kept output, and flushes stdout if there was any. Called by threads of the program
  // before they return from waiting for a device. Threads running host functions of a stream leave
  // it to others.
  void WriteKept() {
    if (has_kept_.load(std::memory_order_acquire)) WriteAll();
  }

 private:
  struct Piece {
    bool error;
    std::string text;
  };
  static std::FILE* StreamOf(const Piece& piece) { return piece.error ? stderr : stdout; }
  // Writes the leading pieces of kept_ for `stream`. The caller holds the lock of `stream`.
  void WriteFor(std::FILE* stream) CUSPAN_REQUIRES(mutex_);
  void WriteAll();

  Mutex mutex_;  // Held while writing, never while waiting for a stream's lock.
  std::deque<Piece> kept_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<bool> has_kept_ = false;  // Also true if stdout needs a flush.
};

}  // namespace cuspan
