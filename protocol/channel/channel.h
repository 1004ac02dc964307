// Two-way channel between a client and a proxy, or between one of them and its local agent. Frames
// go through two rings, bulk data through two staging areas.
//
// Both sides map one memfd. Each direction has
//   - a ring of frames (ring.h): any thread of the sending side may post, one thread of the
//     receiving side reads;
//   - a staging area of up to 64 slots. The sender takes a free slot, fills it and posts a Chunk
//     with its number. The receiver returns slots in any order, after using their bytes.
// Besides, there are marks (marks.h), written after a StreamMark.
//
// Close ends a channel for both sides. Either side may call it, or the agent that created the
// channel.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "common/shared_sync.h"
#include "protocol/channel/bell.h"
#include "protocol/channel/marks.h"
#include "protocol/channel/ring.h"
#include "protocol/channel/wake_ahead.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {

// Sizes, fixed at creation and checked by Attach.
struct ChannelLayout {
  std::uint32_t ring_slots = 16384;  // A power of two; 1 MiB.
  // 1 … 64. With 1, a copy is not pipelined: the slot becomes free when its bytes have reached the
  // destination.
  std::uint32_t staging_slots = 16;
  std::uint64_t staging_bytes = 1 << 20;  // Size of one slot; a multiple of the page size.

  // From the settings CUSPAN_STAGING_BUFFERS, CUSPAN_STAGING_BYTES and CUSPAN_PIPELINE. Fewer
  // slots, with a warning, if the process's file size limit is too low for a channel of this size.
  static Result<ChannelLayout> FromSettings();
};

// Limits for the sender's chunks. A receiver in front of a slow network sets them to keep its queue
// short: later copies have to wait for the queued bytes.
struct Pace {
  std::uint32_t chunk_bytes = ~0U;  // Maximum size of one chunk; also limited by the slot size.
  std::uint32_t slots = 64;         // Maximum number in use.
  bool operator==(const Pace&) const = default;
};

// This process's end of the channel.
enum class ChannelSide { kClient = 0, kProxy = 1 };

// The descriptor of an attached channel: closed, or kept for passing it on (Channel::fd).
enum class ChannelFile { kClose, kKeep };

// A line of a Python program, and its total time of waiting for the device.
struct WaitLocation {
  std::atomic<std::uint32_t> text_bytes;  // 0: empty; stored after the text.
  char text[108];
  std::atomic<std::uint64_t> nanoseconds;
};

// Counters of the client, and for files also of a proxy on its node. They are in the channel's
// memory: the agent can report them after any end of the program.
struct ChannelStatistics {
  // Numbers of ops posted and calls waited for, by their index in kAllOps.
  std::atomic<std::uint64_t> ops[kOpCount];
  template <typename T>
  void Count() {
    ops[T::kIndex].fetch_add(1, std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> bytes_to_device;
  std::atomic<std::uint64_t> bytes_from_device;
  std::atomic<std::uint64_t> wait_nanoseconds;
  std::atomic<std::uint64_t> compile_nanoseconds;
  std::atomic<std::uint64_t> file_bytes_read;
  std::atomic<std::uint64_t> file_bytes_written;
  // NCCL calls by nccl::CallKind, their bytes, and the ranks of the largest communicator.
  std::array<std::atomic<std::uint64_t>, nccl::kCallKinds> collective_calls;
  std::array<std::atomic<std::uint64_t>, nccl::kCallKinds> collective_bytes;
  std::atomic<std::uint32_t> ranks;
  // The lines with the longest waits; the last entry sums up all others.
  std::array<WaitLocation, 32> wait_places;
};

class Channel {
 public:
  // Bytes of shared memory for a channel.
  static std::size_t BytesFor(const ChannelLayout& layout);
  // Creates the shared memory of a new channel.
  static Result<UniqueFd> Create(const ChannelLayout& layout);
  // Maps a channel. `own` is the bell waking this side, and must outlive the channel; `peer` wakes
  // the other side. kInvalid if `file` is not a channel.
  static Result<std::unique_ptr<Channel>> Attach(UniqueFd file, ChannelSide side, Bell* own,
                                                 Bell peer, ChannelFile keep = ChannelFile::kClose);

  // --- Sending. Threads: any.

  // Posts a message and returns its sequence; blocks while the ring is full. Returns 0 if the
  // channel is closed or given up. `request` as in FrameHeader.
  template <typename T>
  std::uint64_t Post(const T& message, std::uint32_t request = 0) {
    return PostEncoded(static_cast<std::uint16_t>(T::kOp), 0, request, message);
  }
  // The reply to a call, under its request number.
  template <typename T>
  std::uint64_t Reply(std::uint32_t request, const typename T::Reply& reply) {
    return PostEncoded(static_cast<std::uint16_t>(T::kOp), kFrameReply, request, reply);
  }
  // Relays a frame unchanged, including its sequence. False if the ring is full, the channel
  // closed, or the frame larger than kMaxFrameBytes.
  bool TryPost(const FrameHeader& header, Bytes payload);
  // At least the sequence of all frames posted before, and less than those of later frames.
  std::uint64_t LastSequence() const { return outgoing_.LastTaken(); }
  // Waits until the receiver has taken the frame of this sequence, for at most `limit`.
  void AwaitTaken(std::uint64_t sequence, std::chrono::nanoseconds limit);
  // True if a frame of this size fits now.
  bool HasRoom(std::size_t frame_bytes) const { return outgoing_.HasRoom(frame_bytes); }
  // Asks the receiver to ring this side's bell after releasing slots of the ring.
  void WantRoom() { outgoing_.WantSpace(); }

  // Current maximum size of a chunk.
  std::uint32_t MostChunkBytes() const;
  // Size of the chunk at `offset` in a copy ending at `end`. The first chunks are smaller. The
  // pipeline is idle until the first chunk is staged, and no other chunks are in flight meanwhile.
  std::uint32_t ChunkBytes(std::uint64_t offset, std::uint64_t end) const;

  // A free slot of the outgoing staging area, or nothing. If nothing, the bell rings when one
  // becomes free.
  std::optional<std::uint32_t> TryAcquireSlot();
  // Blocks until a slot is free. Nothing if the channel is closed or given up.
  std::optional<std::uint32_t> AcquireSlot();
  std::byte* OutgoingSlot(std::uint32_t slot) const;
  // Number of outgoing slots in use.
  std::uint32_t SlotsInUse() const;
  // Returns an outgoing slot that was taken but not posted.
  void ReturnSlot(std::uint32_t slot);

  // --- Receiving. Threads: one.

  // The next frame, valid until Pop; nothing if the ring is empty.
  Result<std::optional<Frame>> Peek() {
    if (!incoming_.HasFrame()) Flush();
    return incoming_.Peek();
  }
  void Pop();
  // True if Peek would return a frame. Cheap: for Bell::Wait.
  bool HasFrame() const { return incoming_.HasFrame(); }
  // The same for the frame after the current one, between Peek and Pop.
  bool HasAnotherFrame() const { return incoming_.HasAnother(); }
  // Makes popped frames visible to the sender. Peek does it when the ring is empty.
  void Flush();

  // --- Slots of the incoming staging area. Threads: any.

  // The bytes of an incoming slot; null for an invalid number.
  std::byte* IncomingSlot(std::uint32_t slot) const;
  // Returns a slot to the sender; ignores an invalid number.
  void ReleaseSlot(std::uint32_t slot);
  // Limits for the sender from now on.
  void SetPace(const Pace& pace);

  // --- Both directions

  // Ends the channel for both sides. `lost`: the other side failed.
  void Close(bool lost);
  // Marks a thread of this side as waiting for the other side during its lifetime. Waits for ring
  // space and for slots do so themselves.
  class Waiter {
   public:
    explicit Waiter(Channel& channel) : waiters_(channel.waiters_) {
      waiters_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Waiter() { waiters_.fetch_sub(1, std::memory_order_relaxed); }
    Waiter(const Waiter&) = delete;

   private:
    std::atomic<int>& waiters_;
  };
  bool waited_for() const { return waiters_.load(std::memory_order_relaxed) != 0; }
  // Changes when the receiver has released frames.
  std::uint64_t taken() const { return outgoing_.released(); }

  // Ends all current and future waits of this side: each returns as on a closed channel. The other
  // side, possibly gone or stopped, is not notified. Threads: any.
  void GiveUp();
  // Close(true), with the reason as a sentence for the other side (truncated to 511 bytes). Called
  // by the agent that created the channel, or by the proxy if this agent is gone.
  void Lose(std::string_view reason);
  bool closed() const;
  bool lost() const;
  // The reason for the loss, in printable characters; empty if unknown.
  std::string end_reason() const;
  Bell& own_bell() { return *own_; }
  ChannelSide side() const { return side_; }
  // -1 unless kept.
  int fd() const { return fd_.get(); }
  const ChannelLayout& layout() const { return layout_; }
  ChannelStatistics& statistics() const;
  // Bytes of the client's frames not yet released by the receiver. For display only: both ends
  // continue meanwhile and may write anything to the counters.
  std::uint64_t UntakenRequestBytes() const;
  const ChannelMarks& marks() const { return marks_; }
  WakeAhead& ahead() { return ahead_; }
  // The staging areas, for pinning by a proxy: [0] client to proxy, [1] back.
  std::span<std::byte> StagingArea(int direction) const;

 private:
  struct Header;
  Channel(ChannelLayout layout, ChannelSide side, Bell* own, Bell peer, Mapping header,
          Mapping marks, Mapping rings[2], Mapping staging, SharedSync sync);
  Header* header() const;

  template <typename T>
  std::uint64_t PostEncoded(std::uint16_t op, std::uint8_t flags, std::uint32_t request,
                            const T& message) {
    const std::size_t payload_bytes = EncodedSize(message);
    const std::size_t frame_bytes = sizeof(FrameHeader) + payload_bytes;
    if (frame_bytes > kMaxFrameBytes || closed()) return 0;
    std::optional<RingProducer::Reservation> room = outgoing_.TryReserve(frame_bytes);
    if (!room) [[unlikely]] {
      room = WaitForRoom(frame_bytes);
      if (!room) return 0;
    }
    // Constructed in place: copying freshly written bytes would stall until the stores complete.
    ::new (room->frame) FrameHeader{.flags = flags,
                                    .op = op,
                                    .payload_bytes = static_cast<std::uint32_t>(payload_bytes),
                                    .request = request,
                                    .sequence = room->sequence};
    EncodeInto({room->frame + sizeof(FrameHeader), payload_bytes}, message);
    outgoing_.Publish(*room);
    if (peer_.Ring()) [[unlikely]]
      ahead_.WokeReceiver();
    return room->sequence;
  }
  // Nothing if closed or given up.
  std::optional<RingProducer::Reservation> WaitForRoom(std::size_t frame_bytes);
  // True if closed or given up: ends every wait below.
  bool over() const { return given_up_.load(std::memory_order_acquire) || closed(); }

  const ChannelLayout layout_;
  const ChannelSide side_;
  Bell* const own_;
  Bell peer_;
  UniqueFd fd_;
  Mapping header_;
  const ChannelMarks marks_;
  WakeAhead ahead_;
  Mapping rings_[2];
  Mapping staging_;
  const SharedSync sync_;
  RingProducer outgoing_;
  RingConsumer incoming_;
  std::atomic<bool> given_up_{false};  // Set by this side, for this side only.
  std::atomic<int> waiters_{0};        // Waiting threads of this side.
  const WaitStages stages_ = WaitStages::ForThisMachine();
};

}  // namespace cuspan
