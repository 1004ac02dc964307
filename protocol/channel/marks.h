// Marks of a channel: words written when the client's device reaches points of its streams.
//
// Not used between nodes: agents do not relay them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "common/shared_memory.h"
#include "protocol/channel/bell.h"

namespace cuspan {

// A thread of the client waiting for a point of a stream. The device, or the proxy, writes a value
// chosen by the client, plus these flags.
struct alignas(64) ChannelMark {
  static constexpr std::uint32_t kDeviceIdle = 1;  // All other streams were idle, too.
  static constexpr std::uint32_t kFailed = 2;      // The point will not be reached.
  static constexpr std::uint32_t kStep = 4;        // Values are multiples of it, and increase.
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleeping;  // The thread waits on its bell.
};

// Threads: any.
class ChannelMarks {
 public:
  static constexpr std::uint32_t kCount = 1024;
  static constexpr std::size_t kBytes = kCount * sizeof(ChannelMark);

  // `memory` has kBytes. The bells of this side and of the other one outlive it.
  ChannelMarks(Mapping memory, Bell* own, Bell* peer)
      : memory_(std::move(memory)), own_(*own), peer_(*peer) {}

  std::span<ChannelMark> all() const {
    return {reinterpret_cast<ChannelMark*>(memory_.data()), kCount};
  }
  // Proxy side, after the value is written: wakes the client's thread if it sleeps.
  void WakeWaiter(const ChannelMark& mark) const {
    // The thread looks at the value once more after it has set the flag.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (mark.sleeping.load(std::memory_order_relaxed) != 0) peer_.Ring();
  }
  // Client side: waits until over() is true; false after `limit`. Uses its core for up to
  // WaitStages::await, since the proxy needs longer to wake it than most kernels run.
  template <typename Over>
  bool Await(ChannelMark& mark, Over&& over, std::chrono::nanoseconds limit) const {
    if (own_.Wait(over, std::min(limit, stages_.await), {stages_.spin, stages_.await})) return true;
    mark.sleeping.store(1, std::memory_order_seq_cst);
    const bool is_over = own_.Wait(over, limit, {});
    mark.sleeping.store(0, std::memory_order_relaxed);
    return is_over;
  }

 private:
  const Mapping memory_;
  Bell& own_;
  Bell& peer_;
  const WaitStages stages_ = WaitStages::ForThisMachine();
};

}  // namespace cuspan
