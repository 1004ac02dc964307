// Ring of frames in shared memory: many producers, one consumer.
//
// Slots have 64 bytes. A frame takes consecutive slots; the ring is mapped twice, so it never wraps
// inside a frame. The first word of a frame's first slot publishes it: the slot's number + 1,
// stored when the frame is complete. The consumer zeroes the first word of each slot before
// releasing it, so old contents never look published. Producers take only free slots, so the ring
// never has holes: a failed TryReserve changes nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/shared_memory.h"
#include "common/shared_sync.h"
#include "protocol/wire/frame.h"

namespace cuspan {

inline constexpr std::size_t kSlotBytes = 64;

// The shared words of one ring, in separate cache lines.
struct RingControl {
  alignas(64) std::atomic<std::uint64_t> ticket;        // Total slots taken by producers.
  alignas(64) std::atomic<std::uint64_t> released;      // Total slots released by the consumer.
  alignas(64) std::atomic<std::uint32_t> space_wanted;  // A producer waits for free slots.
};

// The slots of one ring, mapped twice consecutively.
struct RingSlots {
  std::byte* bytes;
  std::uint64_t count;  // A power of two.

  // Address of slot `number`, counted without wrapping. No division: it is called four times per
  // frame.
  std::byte* At(std::uint64_t number) const { return bytes + (number & (count - 1)) * kSlotBytes; }
};

// Threads: any number may produce.
class RingProducer {
 public:
  RingProducer(RingControl* control, RingSlots slots, SharedSync sync)
      : control_(control), slots_(slots), sync_(sync) {}

  // Space for one frame, to be filled in and published.
  struct Reservation {
    std::byte* frame;        // Address of the header.
    std::uint64_t sequence;  // Increases with each frame; never 0.
    std::uint64_t slot;
  };
  // Takes space for a frame of `frame_bytes`; nothing if there is not enough now.
  std::optional<Reservation> TryReserve(std::size_t frame_bytes);
  void Publish(const Reservation& reservation);

  bool HasRoom(std::size_t frame_bytes) const;
  // At least the sequence of all frames reserved so far, and less than those of later frames.
  std::uint64_t LastTaken() const { return control_->ticket.load(std::memory_order_acquire); }
  // True if the consumer has released the frame of this sequence and all before it. While later
  // frames are in the ring, this is reported with a delay.
  bool Taken(std::uint64_t sequence) const {
    return control_->released.load(std::memory_order_acquire) >= sequence;
  }
  // Total slots released by the consumer.
  std::uint64_t released() const { return control_->released.load(std::memory_order_acquire); }
  // Asks the consumer to ring when it releases slots.
  void WantSpace() { control_->space_wanted.store(1); }

 private:
  bool Fits(std::uint64_t end) const;
  void PrefetchAhead(std::uint64_t end) const;
  RingControl* control_;
  RingSlots slots_;
  SharedSync sync_;
  // Cached RingControl::released. While the consumer keeps up, it writes that cache line for every
  // frame. The line is read only if the cached value does not suffice.
  mutable std::atomic<std::uint64_t> released_seen_ = 0;
};

// Threads: one at a time.
class RingConsumer {
 public:
  RingConsumer(RingControl* control, RingSlots slots, SharedSync sync)
      : control_(control), slots_(slots), sync_(sync) {}

  // The next frame, in place, until Pop; nothing if none is published. kInvalid for a malformed
  // frame.
  Result<std::optional<Frame>> Peek();
  void Pop();
  bool HasFrame() const;
  // True if a frame follows the current one, between Peek and Pop.
  bool HasAnother() const;
  // Publishes the released slots to the producers; true if a producer waits for them. Pop does so
  // only from time to time.
  bool PublishReleased();
  // Slots popped but not yet published to the producers.
  std::uint64_t UnpublishedReleaseSlots() const { return head_ - published_; }

 private:
  RingControl* control_;
  RingSlots slots_;
  SharedSync sync_;
  std::uint64_t head_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t current_slots_ = 0;
};

}  // namespace cuspan
