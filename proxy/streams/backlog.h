// When a proxy leaves what the client sent where it is: as CUDA's own queues, which hold about a
// thousand launches, a proxy's take only so much, and a program that launches faster than its
// device runs waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cuspan::proxy {

// Knows no clock of its own. Threads: one at a time.
class Backlog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // So many ops wait in the queues at most (some megabytes). Much more than CUDA has room for: what
  // other threads of the program send lies in the same ring, and should not wait behind a program
  // that is merely some steps ahead of its device.
  static constexpr std::size_t kMaxWaiting = 65536;
  // Then frames are read again when there are no more than this.
  static constexpr std::size_t kFewWaiting = kMaxWaiting * 3 / 4;
  // What waits may wait for something that is still in the ring (a chunk, a signal, a wait's other
  // side). When nothing has moved for so long, frames are read until something does.
  static constexpr std::chrono::milliseconds kPatience{20};

  // Whether frames are to be left in the ring. `taken` counts the ops that have left the queues.
  // now() is asked only when many wait.
  template <typename Now>
  bool Hold(std::size_t waiting, std::uint64_t taken, Now&& now) {
    if (waiting <= (holding_ ? kFewWaiting : kMaxWaiting)) {
      holding_ = false;
      return false;
    }
    const Time time = now();
    if (!holding_ || taken != taken_) {
      holding_ = true;
      taken_ = taken;
      moved_ = time;
    }
    return time - moved_ < kPatience;
  }

 private:
  bool holding_ = false;
  std::uint64_t taken_ = 0;
  Time moved_;
};

}  // namespace cuspan::proxy
