// The two-way channel between a client and a proxy, or between either of them
// and the agent beside it: frames in two rings, bulk bytes in two staging areas.
//
// One memfd holds it all; each side maps it. Every direction has
//   - a ring of frames (ring.h), which any thread of the sending side may post to and
//     one thread of the receiving side reads;
//   - a staging area of up to 64 slots. The sender takes a free slot, fills it
//     and posts a Chunk that names it; the receiver gives it back when it has
//     done with the bytes, in any order.
// A channel ends for both sides by Close, which either side, or the agent that
// made it, may call.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "common/shared_sync.h"
#include "protocol/channel/bell.h"
#include "protocol/channel/ring.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {

// Sizes, fixed when the channel is made and checked when it is attached.
struct ChannelLayout {
  std::uint32_t ring_slots = 16384;  // A power of two; 1 MiB.
  // 1 … 64. With one, a copy is not pipelined: the slot comes free when its bytes have gone all
  // the way.
  std::uint32_t staging_slots = 16;
  std::uint64_t staging_bytes = 1 << 20;  // Of one slot; a multiple of the page size.

  // From the settings CUSPAN_STAGING_BUFFERS, CUSPAN_STAGING_BYTES and CUSPAN_PIPELINE. Fewer
  // slots, which is logged, where the process's limit of file sizes does not let a channel have so
  // many.
  static Result<ChannelLayout> FromSettings();
};

// How the sender of a direction should cut its copies. The receiver sets it where it passes them
// on to something slow, so that little waits there: what is behind it in time waits as long.
struct Pace {
  std::uint32_t chunk_bytes = ~0U;  // Of one chunk at most; a slot holds no more in any case.
  std::uint32_t slots = 64;         // In use at a time.
  bool operator==(const Pace&) const = default;
};

// Which end of the channel this process holds.
enum class ChannelSide { kClient = 0, kProxy = 1 };

// A line of a Python program, and how long it waited there for the device.
struct WaitLocation {
  std::atomic<std::uint32_t> text_bytes;  // 0: none yet; set when the text is there.
  char text[108];
  std::atomic<std::uint64_t> nanoseconds;
};

// Counters that the client keeps in the channel, so that the agent can report
// them however the program ends.
struct ChannelStatistics {
  // Ops posted and calls waited for, by their place in kAllOps.
  std::atomic<std::uint64_t> ops[kOpCount];
  template <typename T>
  void Count() {
    ops[T::kIndex].fetch_add(1, std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> bytes_to_device;
  std::atomic<std::uint64_t> bytes_from_device;
  std::atomic<std::uint64_t> wait_nanoseconds;
  std::atomic<std::uint64_t> compile_nanoseconds;
  // What NCCL was asked to do, by nccl::CallKind, and the ranks of the largest communicator.
  std::array<std::atomic<std::uint64_t>, nccl::kCallKinds> collective_calls;
  std::array<std::atomic<std::uint64_t>, nccl::kCallKinds> collective_bytes;
  std::atomic<std::uint32_t> ranks;
  // The lines that waited longest; the last one stands for all others.
  std::array<WaitLocation, 32> wait_places;
};

class Channel {
 public:
  // How much shared memory a channel takes.
  static std::size_t BytesFor(const ChannelLayout& layout);
  // The shared memory of a new channel.
  static Result<UniqueFd> Create(const ChannelLayout& layout);
  // Maps a channel. `own` is the bell that wakes this side, and must outlive
  // the channel; `peer` wakes the other. kInvalid when `fd` is no channel.
  static Result<std::unique_ptr<Channel>> Attach(UniqueFd fd, ChannelSide side, Bell* own,
                                                 Bell peer);
  // The same, and keeps the descriptor, for others who shall map it: fd().
  static Result<std::unique_ptr<Channel>> AttachAndKeep(UniqueFd fd, ChannelSide side, Bell* own,
                                                        Bell peer);

  // --- Sending; any thread.

  // Posts a message and returns its sequence; waits while the ring is full.
  // 0 when the channel is closed or given up. `request` as in FrameHeader.
  template <typename T>
  std::uint64_t Post(const T& message, std::uint32_t request = 0) {
    return PostEncoded(static_cast<std::uint16_t>(T::kOp), 0, request, message);
  }
  // The answer to `call`, under its request number.
  template <typename T>
  std::uint64_t Reply(std::uint32_t request, const typename T::Reply& reply) {
    return PostEncoded(static_cast<std::uint16_t>(T::kOp), kFrameReply, request, reply);
  }
  // Passes a frame on as it is (sequence and all); false when the ring is full now, the channel
  // closed, or the frame larger than kMaxFrameBytes.
  bool TryPost(const FrameHeader& header, Bytes payload);
  // Not less than the sequence of any frame posted before, and less than those of later ones.
  std::uint64_t LastSequence() const { return outgoing_.LastTaken(); }
  // Returns when the receiver has taken the frame of this sequence, unless it is the only one that
  // it has not taken; `limit` later at the latest.
  void AwaitTaken(std::uint64_t sequence, std::chrono::nanoseconds limit);
  // Whether a frame of so many bytes would fit now.
  bool HasRoom(std::size_t frame_bytes) const { return outgoing_.HasRoom(frame_bytes); }
  // Asks the receiver to ring this side's bell when room was made.
  void WantRoom() { outgoing_.WantSpace(); }

  // How large a chunk should be now, at most.
  std::uint32_t MostChunkBytes() const;
  // The one at `offset` of a copy that ends at `end`. The first ones are smaller: nothing else
  // moves until the first has been staged, and there are no others yet to fill the wait for the
  // other end's answer.
  std::uint32_t ChunkBytes(std::uint64_t offset, std::uint64_t end) const;

  // A free slot of the outgoing staging area, or nothing; then the bell rings when one comes free.
  std::optional<std::uint32_t> TryTakeSlot();
  // Waits for a free slot; nothing when the channel is closed or given up.
  std::optional<std::uint32_t> TakeSlot();
  std::byte* OutgoingSlot(std::uint32_t slot) const;
  // How many slots of the outgoing area are not free now.
  std::uint32_t SlotsInUse() const;
  // Gives back a slot of the outgoing area that was taken and not posted.
  void ReturnSlot(std::uint32_t slot);

  // --- Receiving; one thread.

  // The next frame, valid until Pop; nothing when there is none now.
  Result<std::optional<Frame>> Peek() {
    if (!incoming_.HasFrame()) Flush();
    return incoming_.Peek();
  }
  void Pop();
  // True when Peek would find something: cheap, for Bell::Wait.
  bool HasFrame() const { return incoming_.HasFrame(); }
  // The same for what comes after the frame that Peek gave, until Pop.
  bool HasAnotherFrame() const { return incoming_.HasAnother(); }
  // Shows the sender what was popped. Peek does it when the ring is empty.
  void Flush();

  // --- Slots of the incoming staging area; any thread.

  // The bytes of an incoming slot, or null when there is no slot of that number.
  std::byte* IncomingSlot(std::uint32_t slot) const;
  // Gives a slot back to the sender; a number that is none is ignored.
  void ReleaseSlot(std::uint32_t slot);
  // For the sender, from now on.
  void SetPace(const Pace& pace);

  // --- Both.

  // Ends the channel for both sides; `lost` says that the other side did not do so willingly.
  void Close(bool lost);
  // A thread of this side waits for the other one while this lives. Room and slots are waited for
  // by themselves.
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
  // Changes when the receiver has shown that it took frames.
  std::uint64_t taken() const { return outgoing_.released(); }

  // Ends all waits of this side, those under way and those to come: each returns as on a closed
  // channel. The other side, which may be gone or stopped, is not told. Any thread.
  void GiveUp();
  // Close(true), with a sentence for the other side that says why: its first 511 bytes arrive. By
  // the agent that made the channel, or by the proxy when that agent is gone.
  void Lose(std::string_view reason);
  bool closed() const;
  bool lost() const;
  // Why the channel was lost, in printable characters; empty where nobody said so.
  std::string end_reason() const;
  Bell& own_bell() { return *own_; }
  ChannelSide side() const { return side_; }
  // -1 unless it was kept.
  int fd() const { return fd_.get(); }
  const ChannelLayout& layout() const { return layout_; }
  ChannelStatistics& statistics() const;
  // Of what the client has sent, as far as its receiver has not shown that it was taken. For
  // people: both ends go on meanwhile, and may write there what they like.
  std::uint64_t UntakenRequestBytes() const;
  // The staging areas, for a proxy that pins them: [0] client to proxy, [1] back.
  std::span<std::byte> StagingArea(int direction) const;

 private:
  struct Header;
  static Result<std::unique_ptr<Channel>> Map(int fd, ChannelSide side, Bell* own, Bell peer);
  Channel(ChannelLayout layout, ChannelSide side, Bell* own, Bell peer, Mapping header,
          Mapping rings[2], Mapping staging, SharedSync sync);
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
    // Made in place: whoever copies what it has only just written waits for the writes.
    ::new (room->frame) FrameHeader{.flags = flags,
                                    .op = op,
                                    .payload_bytes = static_cast<std::uint32_t>(payload_bytes),
                                    .request = request,
                                    .sequence = room->sequence};
    EncodeInto({room->frame + sizeof(FrameHeader), payload_bytes}, message);
    outgoing_.Publish(*room);
    peer_.Ring();
    return room->sequence;
  }
  // Nothing when closed or given up.
  std::optional<RingProducer::Reservation> WaitForRoom(std::size_t frame_bytes);
  // True if nothing is to be waited for any more: every wait below ends with it.
  bool over() const { return given_up_.load(std::memory_order_acquire) || closed(); }

  const ChannelLayout layout_;
  const ChannelSide side_;
  Bell* const own_;
  Bell peer_;
  UniqueFd fd_;
  Mapping header_;
  Mapping rings_[2];
  Mapping staging_;
  const SharedSync sync_;
  RingProducer outgoing_;
  RingConsumer incoming_;
  std::atomic<bool> given_up_{false};  // By this side, for this side.
  std::atomic<int> waiters_{0};        // Threads of this side.
  const WaitStages stages_ = WaitStages::ForThisMachine();
};

}  // namespace cuspan
