// A ring of frames in shared memory: many producers, one consumer.
//
// Slots of 64 bytes; a frame takes as many as it needs, contiguous because the
// slots are mapped twice. The first word of a frame's first slot publishes it:
// it holds the slot's number + 1 when the frame is complete. The consumer
// zeroes the first word of each slot that it gives back, so that old contents
// never look published. A producer takes slots only when they are free, so
// there is never a hole: after a failed TryReserve nothing has happened.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/shared_memory.h"
#include "common/shared_sync.h"
#include "protocol/wire/frame.h"

namespace cuspan {

inline constexpr std::size_t kSlotBytes = 64;

// The shared words of one ring; each group has a cache line of its own.
struct RingControl {
  alignas(64) std::atomic<std::uint64_t> ticket;        // Slots ever taken by producers.
  alignas(64) std::atomic<std::uint64_t> released;      // Slots ever given back by the consumer.
  alignas(64) std::atomic<std::uint32_t> space_wanted;  // A producer waits for room.
};

// The slots of one ring, as mapped: twice, one behind the other.
struct RingSlots {
  std::byte* bytes;
  std::uint64_t count;  // A power of two.

  // The place of the slot that is the `number`th ever taken. Not by a division: every frame asks
  // four times.
  std::byte* At(std::uint64_t number) const { return bytes + (number & (count - 1)) * kSlotBytes; }
};

// Threads: any number may produce.
class RingProducer {
 public:
  RingProducer(RingControl* control, RingSlots slots, SharedSync sync)
      : control_(control), slots_(slots), sync_(sync) {}

  // Room for one frame, to be filled in and published.
  struct Reservation {
    std::byte* frame;        // Where its header starts.
    std::uint64_t sequence;  // Grows with every frame; never 0.
    std::uint64_t slot;
  };
  // Takes room for a frame of `frame_bytes`; nothing when there is none now.
  std::optional<Reservation> TryReserve(std::size_t frame_bytes);
  void Publish(const Reservation& reservation);

  bool HasRoom(std::size_t frame_bytes) const;
  // Not less than the sequence of any frame for which room was taken, and less than that of any
  // frame to come.
  std::uint64_t LastTaken() const { return control_->ticket.load(std::memory_order_acquire); }
  // Whether the consumer is known to have taken the frame of this sequence and all before it. While
  // there are others behind them, it says so late.
  bool Taken(std::uint64_t sequence) const {
    return control_->released.load(std::memory_order_acquire) >= sequence;
  }
  // Slots that the consumer has given back.
  std::uint64_t released() const { return control_->released.load(std::memory_order_acquire); }
  // Asks the consumer to ring when it gives slots back.
  void WantSpace() { control_->space_wanted.store(1); }

 private:
  bool Fits(std::uint64_t end) const;
  void PrefetchAhead(std::uint64_t end) const;
  RingControl* control_;
  RingSlots slots_;
  SharedSync sync_;
  // RingControl::released as some thread last read it: the consumer writes that
  // line with every frame while it keeps up, so it is read only when this is not enough.
  mutable std::atomic<std::uint64_t> released_seen_ = 0;
};

// Threads: one at a time.
class RingConsumer {
 public:
  RingConsumer(RingControl* control, RingSlots slots, SharedSync sync)
      : control_(control), slots_(slots), sync_(sync) {}

  // The next frame, in place, until Pop; nothing when there is none yet.
  // kInvalid for a frame that no honest producer writes.
  Result<std::optional<Frame>> Peek();
  void Pop();
  bool HasFrame() const;
  // Whether there is one behind the frame that Peek gave and Pop has not yet taken.
  bool HasAnother() const;
  // Shows the producers what was given back; true when one of them waits for it.
  // Pop does so by itself only now and then.
  bool PublishReleased();
  // Slots popped and not yet shown to the producers.
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
