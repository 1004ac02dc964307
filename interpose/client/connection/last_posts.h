// Sequences of the ops posted to one device: the last one of each stream, the last one using shared
// memory, and the last one known to be complete.
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
  // False for the default streams: the proxy is asked about these.
  static bool Notes(std::uint64_t stream) { return stream > 2; }
  void Note(std::uint64_t stream, std::uint64_t sequence) {
    if (!Notes(stream)) return;
    RaiseTo(slots_[SlotOf(stream)].sequence, sequence);
  }
  // Sequence of the last op posted to a stream created by the program, or a higher one.
  std::uint64_t Of(std::uint64_t stream) const {
    return slots_[SlotOf(stream)].sequence.load(std::memory_order_acquire);
  }

  // Work possibly using memory shared with the program.
  void NoteWork(std::uint64_t sequence) { RaiseTo(work_, sequence); }
  std::uint64_t work() const { return work_.load(std::memory_order_acquire); }

  // Everything posted up to `sequence` is complete, and the bytes of its copies are stored.
  void NoteStored(std::uint64_t sequence) { RaiseTo(stored_, sequence); }
  bool Stored(std::uint64_t sequence) const {
    return sequence <= stored_.load(std::memory_order_acquire);
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
  alignas(64) std::atomic<std::uint64_t> work_{0};
  std::atomic<std::uint64_t> stored_{0};
};

}  // namespace cuspan
