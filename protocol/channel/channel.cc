#include "protocol/channel/channel.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"

namespace cuspan {
namespace {

constexpr std::uint64_t kChannelMagic = 0x326e6e6863757363;  // "cuschnn2"
constexpr std::size_t kPage = 4096;
// Size of a copy's first chunk. Chosen among 32K … 1M by measuring copies over TCP
// (bench/results/change-first-chunks.csv).
constexpr std::uint64_t kFirstChunk = 256 * 1024;
constexpr std::chrono::milliseconds kSlotSoon{1};
// Maximum bytes of the reason for the end of a channel.
constexpr std::size_t kMaxReason = 512;

}  // namespace

// The first pages of the memfd. Indexes are directions: 0 client to proxy, 1 back.
struct Channel::Header {
  enum class State : std::uint32_t { kOpen = 0, kClosed = 1, kLost = 2 };
  // Free slots of a staging area, one bit each.
  struct StagingControl {
    alignas(64) std::atomic<std::uint64_t> free;
    alignas(64) std::atomic<std::uint32_t> wanted;  // The sender waits for a slot.
    alignas(64) std::atomic<std::uint32_t> pace_chunk_bytes;
    std::atomic<std::uint32_t> pace_slots;
  };

  std::uint64_t magic;
  ChannelLayout layout;
  alignas(64) std::atomic<State> state;
  alignas(64) WakeAhead::Words ahead;
  RingControl rings[2];
  StagingControl staging[2];
  alignas(64) ChannelStatistics statistics;
  alignas(64) char end_reason[kMaxReason];
};

namespace {

template <typename T>
constexpr std::size_t PagesFor() {
  return (sizeof(T) + kPage - 1) / kPage * kPage;
}

Status CheckLayout(const ChannelLayout& layout) {
  if (!std::has_single_bit(layout.ring_slots) ||
      layout.ring_slots * kSlotBytes < 2 * kMaxFrameBytes || layout.ring_slots > (1U << 24))
    return Status::Invalid("a channel cannot have {} ring slots", layout.ring_slots);
  if (layout.staging_slots == 0 || layout.staging_slots > 64)
    return Status::Invalid("a channel cannot have {} staging slots; use 1 to 64",
                           layout.staging_slots);
  if (layout.staging_bytes == 0 || layout.staging_bytes % kPage != 0 ||
      layout.staging_bytes > (1U << 30))
    return Status::Invalid("staging slots cannot have {} bytes; a multiple of {} is needed",
                           layout.staging_bytes, kPage);
  return Status::Ok();
}

}  // namespace

Result<ChannelLayout> ChannelLayout::FromSettings() {
  ChannelLayout layout;
  CUSPAN_ASSIGN_OR_RETURN(std::uint64_t slots, SettingNumber(settings::kStagingBuffers, 2, 64));
  CUSPAN_ASSIGN_OR_RETURN(std::uint64_t bytes,
                          SettingBytes(settings::kStagingBytes, kPage, 64 << 20));
  CUSPAN_ASSIGN_OR_RETURN(bool pipelined, SettingSwitch(settings::kPipeline));
  layout.staging_slots = pipelined ? static_cast<std::uint32_t>(slots) : 1;
  layout.staging_bytes = (bytes + kPage - 1) / kPage * kPage;
  // Reduces the number of slots, not their size: other agents may have no such limit, and a chunk
  // has to fit the slots of both.
  const std::uint64_t largest = LargestSharedMemory();
  const std::uint32_t wanted = layout.staging_slots;
  while (layout.staging_slots > 1 && Channel::BytesFor(layout) > largest) layout.staging_slots /= 2;
  if (layout.staging_slots != wanted)
    LogWarn(
        "copies use {} staging buffers instead of {} and are slower: the file size limit is {} "
        "bytes (ulimit -f)",
        layout.staging_slots, wanted, largest);
  return layout;
}

std::size_t Channel::BytesFor(const ChannelLayout& layout) {
  return PagesFor<Header>() + ChannelMarks::kBytes + 2 * layout.ring_slots * kSlotBytes +
         2 * layout.staging_slots * layout.staging_bytes;
}

Result<UniqueFd> Channel::Create(const ChannelLayout& layout) {
  CUSPAN_RETURN_IF_ERROR(CheckLayout(layout));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, CreateSharedMemory("cuspan-channel", BytesFor(layout)));
  CUSPAN_ASSIGN_OR_RETURN(Mapping mapping, Mapping::Map(fd.get(), 0, PagesFor<Header>()));
  auto* header = new (mapping.data()) Header{};
  header->magic = kChannelMagic;
  header->layout = layout;
  for (Header::StagingControl& staging : header->staging) {
    staging.free = ~std::uint64_t{0} >> (64 - layout.staging_slots);
    staging.pace_chunk_bytes = Pace{}.chunk_bytes;
    staging.pace_slots = Pace{}.slots;
  }
  return fd;
}

Result<std::unique_ptr<Channel>> Channel::Attach(UniqueFd file, ChannelSide side, Bell* own,
                                                 Bell peer, ChannelFile keep) {
  const int fd = file.get();
  CUSPAN_ASSIGN_OR_RETURN(Mapping header, Mapping::Map(fd, 0, PagesFor<Header>()));
  const auto* shared = reinterpret_cast<const Header*>(header.data());
  const ChannelLayout layout = shared->layout;
  if (shared->magic != kChannelMagic)
    return Status::Invalid("the shared memory does not contain a channel");
  CUSPAN_RETURN_IF_ERROR(CheckLayout(layout));
  const std::size_t ring_bytes = layout.ring_slots * kSlotBytes;
  CUSPAN_ASSIGN_OR_RETURN(Mapping marks,
                          Mapping::Map(fd, PagesFor<Header>(), ChannelMarks::kBytes));
  constexpr std::size_t kBeforeRings = PagesFor<Header>() + ChannelMarks::kBytes;
  Mapping rings[2];
  for (std::size_t direction = 0; direction < 2; ++direction) {
    CUSPAN_ASSIGN_OR_RETURN(
        rings[direction], Mapping::MapTwice(fd, kBeforeRings + direction * ring_bytes, ring_bytes));
  }
  CUSPAN_ASSIGN_OR_RETURN(Mapping staging,
                          Mapping::Map(fd, kBeforeRings + 2 * ring_bytes,
                                       2 * layout.staging_slots * layout.staging_bytes));
  struct stat information = {};
  if (::fstat(fd, &information) != 0)
    return Status::Invalid("fstat of a channel: {}", std::strerror(errno));
  peer.CloseFd();
  std::unique_ptr<Channel> channel(new Channel(layout, side, own, std::move(peer),
                                               std::move(header), std::move(marks), rings,
                                               std::move(staging), SharedSync(information.st_ino)));
  if (keep == ChannelFile::kKeep) channel->fd_ = std::move(file);
  return channel;
}

Channel::Channel(ChannelLayout layout, ChannelSide side, Bell* own, Bell peer, Mapping header,
                 Mapping marks, Mapping rings[2], Mapping staging, SharedSync sync)
    : layout_(layout),
      side_(side),
      own_(own),
      peer_(std::move(peer)),
      header_(std::move(header)),
      marks_(std::move(marks), own, &peer_),
      ahead_(&this->header()->ahead, &peer_, side == ChannelSide::kClient ? 0 : 1),
      rings_{std::move(rings[0]), std::move(rings[1])},
      staging_(std::move(staging)),
      sync_(sync),
      outgoing_(&this->header()->rings[side == ChannelSide::kClient ? 0 : 1],
                {rings_[side == ChannelSide::kClient ? 0 : 1].data(), layout.ring_slots}, sync),
      incoming_(&this->header()->rings[side == ChannelSide::kClient ? 1 : 0],
                {rings_[side == ChannelSide::kClient ? 1 : 0].data(), layout.ring_slots}, sync) {}

Channel::Header* Channel::header() const { return reinterpret_cast<Header*>(header_.data()); }

std::optional<RingProducer::Reservation> Channel::WaitForRoom(std::size_t frame_bytes) {
  std::optional<RingProducer::Reservation> room;
  const Waiter waiter(*this);
  while (!room) {
    own_->Wait(
        [&] {
          outgoing_.WantSpace();
          return over() || outgoing_.HasRoom(frame_bytes);
        },
        std::chrono::milliseconds(100), stages_);
    if (over()) return std::nullopt;
    room = outgoing_.TryReserve(frame_bytes);
  }
  return room;
}

bool Channel::TryPost(const FrameHeader& header, Bytes payload) {
  if (closed() || sizeof header + payload.size() > kMaxFrameBytes) return false;
  std::optional<RingProducer::Reservation> room =
      outgoing_.TryReserve(sizeof header + payload.size());
  if (!room) return false;
  std::memcpy(room->frame, &header, sizeof header);
  if (!payload.empty()) std::memcpy(room->frame + sizeof header, payload.data(), payload.size());
  outgoing_.Publish(*room);
  peer_.Ring();
  return true;
}

void Channel::AwaitTaken(std::uint64_t sequence, std::chrono::nanoseconds limit) {
  own_->Wait([&] { return outgoing_.Taken(sequence) || over(); }, limit,
             WaitStages{std::min(stages_.spin, limit), limit});
}

std::optional<std::uint32_t> Channel::TryAcquireSlot() {
  Header::StagingControl& staging = header()->staging[side_ == ChannelSide::kClient ? 0 : 1];
  // Number of free slots at which the pace limit is reached.
  const auto kept_free = [&] {
    const std::uint32_t slots = staging.pace_slots.load(std::memory_order_relaxed);
    return static_cast<int>(layout_.staging_slots - std::min(slots, layout_.staging_slots));
  };
  std::uint64_t free = staging.free.load(std::memory_order_acquire);
  for (;;) {
    if (std::popcount(free) <= kept_free()) {
      // Stored only if needed: several threads may poll here, and each store takes the cache line
      // from the threads returning slots.
      if (staging.wanted.load(std::memory_order_acquire) == 0) staging.wanted.store(1);
      free = staging.free.load();
      if (std::popcount(free) <= kept_free()) return std::nullopt;
    }
    const int slot = std::countr_zero(free);
    if (static_cast<std::uint32_t>(slot) >= layout_.staging_slots) return std::nullopt;
    if (staging.free.compare_exchange_weak(free, free & ~(std::uint64_t{1} << slot),
                                           std::memory_order_acquire)) {
      sync_.Acquire();
      return static_cast<std::uint32_t>(slot);
    }
  }
}

std::optional<std::uint32_t> Channel::AcquireSlot() {
  std::optional<std::uint32_t> slot = TryAcquireSlot();
  if (slot) return slot;
  const Waiter waiter(*this);
  // Over a network of several GB/s the next slot is free within half a millisecond. Waking a
  // sleeper for each slot would cost its receiver more than the relaying.
  WaitStages stages = stages_;
  stages.yield =
      std::min<std::chrono::nanoseconds>(std::max(stages.yield, stages.await), kSlotSoon);
  while (!slot && !over()) {
    own_->Wait([&] { return over() || (slot = TryAcquireSlot()).has_value(); },
               std::chrono::milliseconds(100), stages);
  }
  return slot;
}

std::byte* Channel::OutgoingSlot(std::uint32_t slot) const {
  const std::size_t direction = side_ == ChannelSide::kClient ? 0 : 1;
  return staging_.data() + (direction * layout_.staging_slots + slot) * layout_.staging_bytes;
}

std::uint32_t Channel::SlotsInUse() const {
  const Header::StagingControl& staging = header()->staging[side_ == ChannelSide::kClient ? 0 : 1];
  const int free = std::popcount(staging.free.load(std::memory_order_acquire));
  return layout_.staging_slots - std::min(static_cast<std::uint32_t>(free), layout_.staging_slots);
}

void Channel::ReturnSlot(std::uint32_t slot) {
  Header::StagingControl& staging = header()->staging[side_ == ChannelSide::kClient ? 0 : 1];
  staging.free.fetch_or(std::uint64_t{1} << slot);
  // Another thread of this side may wait for a slot.
  if (staging.wanted.load() != 0 && staging.wanted.exchange(0) != 0) own_->Ring();
}

std::byte* Channel::IncomingSlot(std::uint32_t slot) const {
  if (slot >= layout_.staging_slots) return nullptr;
  const std::size_t direction = side_ == ChannelSide::kClient ? 1 : 0;
  return staging_.data() + (direction * layout_.staging_slots + slot) * layout_.staging_bytes;
}

void Channel::ReleaseSlot(std::uint32_t slot) {
  if (slot >= layout_.staging_slots) return;
  Header::StagingControl& staging = header()->staging[side_ == ChannelSide::kClient ? 1 : 0];
  sync_.Release();
  staging.free.fetch_or(std::uint64_t{1} << slot);
  if (staging.wanted.load() != 0 && staging.wanted.exchange(0) != 0) peer_.Ring();
}

void Channel::SetPace(const Pace& pace) {
  Header::StagingControl& staging = header()->staging[side_ == ChannelSide::kClient ? 1 : 0];
  staging.pace_chunk_bytes.store(pace.chunk_bytes, std::memory_order_relaxed);
  staging.pace_slots.store(std::max(pace.slots, 1U));
  if (staging.wanted.load() != 0 && staging.wanted.exchange(0) != 0) peer_.Ring();
}

std::uint32_t Channel::MostChunkBytes() const {
  const Header::StagingControl& staging = header()->staging[side_ == ChannelSide::kClient ? 0 : 1];
  const std::uint64_t bytes = staging.pace_chunk_bytes.load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      bytes, std::min<std::uint64_t>(kPage, layout_.staging_bytes), layout_.staging_bytes));
}

std::uint32_t Channel::ChunkBytes(std::uint64_t offset, std::uint64_t end) const {
  std::uint64_t bytes = std::min<std::uint64_t>(MostChunkBytes(), end - offset);
  // A single slot allows no overlap: more chunks only cost more.
  if (layout_.staging_slots > 1)
    bytes = std::min(bytes, std::max(kFirstChunk, std::bit_floor(offset)));
  return static_cast<std::uint32_t>(bytes);
}

void Channel::Pop() {
  incoming_.Pop();
  // Producers of a full ring should not wait until the last frame is popped.
  if (incoming_.UnpublishedReleaseSlots() >= layout_.ring_slots / 8) Flush();
}

void Channel::Flush() {
  if (incoming_.UnpublishedReleaseSlots() != 0 && incoming_.PublishReleased()) peer_.Ring();
}

void Channel::GiveUp() {
  given_up_.store(true, std::memory_order_release);
  own_->Ring();
}

void Channel::Lose(std::string_view reason) {
  // If the other side closes the channel meanwhile, it may read a truncated reason.
  if (!closed()) {
    reason = reason.substr(0, kMaxReason - 1);
    std::memcpy(header()->end_reason, reason.data(), reason.size());
    header()->end_reason[reason.size()] = '\0';
  }
  Close(true);
}

std::string Channel::end_reason() const {
  if (!lost()) return "";
  // Copied first: the other side may still write to the memory.
  char copy[kMaxReason];
  std::memcpy(copy, header()->end_reason, kMaxReason);
  return Printable({copy, ::strnlen(copy, kMaxReason)}, kMaxReason);
}

void Channel::Close(bool lost) {
  Header::State open = Header::State::kOpen;
  header()->state.compare_exchange_strong(open,
                                          lost ? Header::State::kLost : Header::State::kClosed);
  own_->Ring();
  peer_.Ring();
}

bool Channel::closed() const {
  return header()->state.load(std::memory_order_acquire) != Header::State::kOpen;
}
bool Channel::lost() const {
  return header()->state.load(std::memory_order_acquire) == Header::State::kLost;
}

ChannelStatistics& Channel::statistics() const { return header()->statistics; }

std::uint64_t Channel::UntakenRequestBytes() const {
  const RingControl& ring = header()->rings[0];
  // Order matters: frames released after the first load were taken before the second.
  const std::uint64_t released = ring.released.load(std::memory_order_acquire);
  const std::uint64_t ticket = ring.ticket.load(std::memory_order_acquire);
  return ticket < released
             ? 0
             : std::min<std::uint64_t>(ticket - released, layout_.ring_slots) * kSlotBytes;
}

std::span<std::byte> Channel::StagingArea(int direction) const {
  const std::size_t bytes = layout_.staging_slots * layout_.staging_bytes;
  return {staging_.data() + static_cast<std::size_t>(direction) * bytes, bytes};
}

}  // namespace cuspan
