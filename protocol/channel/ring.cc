#include "protocol/channel/ring.h"

namespace cuspan {
namespace {

constexpr std::size_t kPublishBytes = sizeof(std::uint64_t);

// The first word of a slot. It may be payload later. The thread sanitizer sees only one of the
// ring's mappings and must not report this as a race.
#if defined(__SANITIZE_THREAD__)
#define CUSPAN_RING_WORD __attribute__((no_sanitize("thread"), noinline))
#else
#define CUSPAN_RING_WORD inline
#endif
CUSPAN_RING_WORD void StoreWord(std::byte* slot, std::uint64_t value) {
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(slot), value, __ATOMIC_RELEASE);
}
CUSPAN_RING_WORD std::uint64_t LoadWord(const std::byte* slot) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(slot), __ATOMIC_ACQUIRE);
}

std::uint64_t SlotsFor(std::size_t frame_bytes) {
  return (kPublishBytes + frame_bytes + kSlotBytes - 1) / kSlotBytes;
}

}  // namespace

// True if slots up to `end` may be taken. The difference is signed: `released` is read after the
// ticket, and may have passed it meanwhile.
bool RingProducer::Fits(std::uint64_t end) const {
  const auto fits = [&](std::uint64_t released) {
    return static_cast<std::int64_t>(end - released) <= static_cast<std::int64_t>(slots_.count);
  };
  if (fits(released_seen_.load(std::memory_order_acquire))) return true;
  const std::uint64_t released = control_->released.load(std::memory_order_acquire);
  released_seen_.store(released, std::memory_order_release);
  return fits(released);
}

// The consumer wrote the slots last, one lap ago. Their cache lines are prefetched for writing
// before the frame is built, so stores do not stall. The distance leaves alone the slot polled by
// an idle consumer.
void RingProducer::PrefetchAhead(std::uint64_t end) const {
#if defined(__x86_64__)
  constexpr std::uint64_t kAhead = 8;
  for (std::uint64_t slot = end + kAhead; slot < end + kAhead + 2; ++slot) {
    // Not __builtin_prefetch: on the baseline processor it prefetches for reading.
    asm volatile("prefetchw %0" : : "m"(*slots_.At(slot)));
  }
#else
  static_cast<void>(end);
#endif
}

std::optional<RingProducer::Reservation> RingProducer::TryReserve(std::size_t frame_bytes) {
  const std::uint64_t slots = SlotsFor(frame_bytes);
  std::uint64_t first = control_->ticket.load(std::memory_order_relaxed);
  do {
    if (!Fits(first + slots)) return std::nullopt;
  } while (
      !control_->ticket.compare_exchange_weak(first, first + slots, std::memory_order_relaxed));
  sync_.Acquire();
  PrefetchAhead(first + slots);
  return Reservation{slots_.At(first) + kPublishBytes, first + 1, first};
}

void RingProducer::Publish(const Reservation& reservation) {
  sync_.Release();
  StoreWord(slots_.At(reservation.slot), reservation.slot + 1);
}

bool RingProducer::HasRoom(std::size_t frame_bytes) const {
  return Fits(control_->ticket.load(std::memory_order_relaxed) + SlotsFor(frame_bytes));
}

bool RingConsumer::HasFrame() const { return LoadWord(slots_.At(head_)) == head_ + 1; }

bool RingConsumer::HasAnother() const {
  const std::uint64_t next = head_ + current_slots_;
  return LoadWord(slots_.At(next)) == next + 1;
}

Result<std::optional<Frame>> RingConsumer::Peek() {
  if (!HasFrame()) return std::optional<Frame>();
  sync_.Acquire();
  const std::byte* start = slots_.At(head_) + kPublishBytes;
  const std::size_t room = slots_.count * kSlotBytes - kPublishBytes;
  CUSPAN_ASSIGN_OR_RETURN(Frame frame, ParseFrame({start, room}, kMaxFrameBytes));
  current_slots_ = SlotsFor(sizeof(FrameHeader) + frame.header.payload_bytes);
  return std::optional<Frame>(frame);
}

void RingConsumer::Pop() {
  for (std::uint64_t i = 0; i < current_slots_; ++i) StoreWord(slots_.At(head_ + i), 0);
  head_ += current_slots_;
  current_slots_ = 0;
}

bool RingConsumer::PublishReleased() {
  published_ = head_;
  sync_.Release();
  control_->released.store(head_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return control_->space_wanted.load(std::memory_order_relaxed) != 0 &&
         control_->space_wanted.exchange(0) != 0;
}

}  // namespace cuspan
