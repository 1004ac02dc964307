// What kernels print, on its way into the program's own stdout and stderr.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>

namespace cuspan {

// A thread of the program may wait for a device while it holds the lock of its stdout (flockfile),
// and what comes from the device is received by another thread. That must not wait for the lock:
// then neither would go on. What finds it taken is kept until a thread may write it, the one that
// holds the lock among them, which writes before it hears that the device is done.
class KernelOutput {
 public:
  // Of this process.
  static KernelOutput& Get();

  // Any thread.
  void Write(bool error, std::string text);
  // Writes what is kept, if the calling thread can; before it returns from waiting for a device.
  void WriteKept() {
    if (has_kept_.load(std::memory_order_acquire)) WriteNow();
  }

 private:
  struct Piece {
    bool error;
    std::string text;
  };
  void WriteNow();

  std::mutex mutex_;  // Held while writing, but never while waiting for a stream's lock.
  std::deque<Piece> kept_;
  std::atomic<bool> has_kept_ = false;
};

}  // namespace cuspan
