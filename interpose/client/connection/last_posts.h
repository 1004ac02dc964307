// Sequence of the last op posted to each stream of one device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/raise.h"

namespace cuspan {

// Threads: any; takes no lock.
class LastPosts {
 public:
  void Note(std::uint64_t stream, std::uint64_t sequence) {
    if (stream <= 2) return;  // The proxy is asked about default streams.
    RaiseTo(slots_[SlotOf(stream)].sequence, sequence);
  }
  // Sequence of the last op posted to a stream created by the program, or a higher one.
  std::uint64_t Of(std::uint64_t stream) const {
    return slots_[SlotOf(stream)].sequence.load(std::memory_order_acquire);
  }

 private:
  // Several streams may share a slot.
  static constexpr unsigned kSlotBits = 5;
  static std::size_t SlotOf(std::uint64_t stream) {
    return stream * 0x9E3779B97F4A7C15 >> (64 - kSlotBits);  // Fibonacci hashing.
  }
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence = 0;
  };
  std::array<Slot, std::size_t{1} << kSlotBits> slots_;
};

}  // namespace cuspan
