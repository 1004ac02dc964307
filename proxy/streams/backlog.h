// Flow control from a proxy to the client. CUDA's own queues hold about a thousand launches, and a
// faster program blocks. If a proxy's queues are full, it leaves further frames in the ring, and
// the program blocks too.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cuspan::proxy {

// Does not read a clock itself. Threads: one at a time.
class Backlog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Maximum of ops waiting in the queues (some megabytes). It is much higher than CUDA's limit:
  // frames of the program's other threads use the same ring, and should not wait behind a thread
  // merely some steps ahead of its device.
  static constexpr std::size_t kMaxWaiting = 65536;
  // Number of waiting ops at which reading frames begins again.
  static constexpr std::size_t kFewWaiting = kMaxWaiting * 3 / 4;
  // Waiting ops may depend on a frame still in the ring (a chunk, a signal, the other side of a
  // wait). If no op has left the queues for this time, frames are read until one does.
  static constexpr std::chrono::milliseconds kPatience{20};

  // True if frames are to be left in the ring. `taken` is the number of ops removed from the queues
  // so far. now() is called only while many ops wait.
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
