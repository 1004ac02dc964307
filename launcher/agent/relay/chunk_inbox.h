// The receiving half of a route's chunks: every free slot of the channel gets a
// receive that is posted ahead, so that a chunk is never waited for by its
// sender, and the other end is told of them (credit). A chunk is announced by a
// frame; its bytes come for themselves, on any of the carrier's lanes.
//
// The posted receives outlive their route: they end when the other end has said
// how many chunks it sent (RemoteClosed). Those into which nothing will come are
// cancelled, the others awaited.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/trace.h"
#include "launcher/agent/relay/batch.h"
#include "launcher/agent/relay/bulk_table.h"
#include "ops.gen.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// One thread.
class ChunkInbox {
 public:
  // A chunk as it is posted to the channel.
  struct Arrival {
    FrameHeader header;
    Chunk chunk;
  };

  // `tag` is this inbox's own among those for `agent`. `carrier` and `table` outlive it.
  ChunkInbox(RouteKey route, std::uint32_t agent, std::uint32_t tag,
             std::shared_ptr<Attachment> memory, Carrier& carrier, BulkTable& table);

  // Posts receives into the slots that are free; true when there were some.
  bool PostAhead();
  // Whether PostAhead would find a slot. Cheap; then the bell rings when one comes free.
  bool CanPost();
  // The receives of which the other end does not know, by lane, when they are at least `least`;
  // now it does.
  std::optional<std::vector<std::uint32_t>> TakeGrants(std::uint32_t least);

  // The other end has announced a chunk. kInvalid when there is no receive for it.
  Status Announce(const FrameHeader& header, const RemoteChunk& chunk);
  // The receive `id` is complete.
  void Received(std::uint64_t id);
  // The next chunk in the order of the announcements, if its bytes are there.
  const Arrival* Front() const;
  void PopFront();
  // Chunks were announced that the channel does not have yet.
  bool awaits_chunks() const { return !announced_.empty(); }

  // No route takes its chunks any more.
  void Shut();
  bool shut() const { return shut_; }
  // The other end sent so many, by lane, and sends no more.
  void End(const std::vector<std::uint32_t>& sent);
  // Shut, and nothing of it is under way.
  bool over() const { return shut_ && ended_ && unfinished_ == 0; }
  std::uint32_t tag() const { return tag_; }

 private:
  struct Incoming {
    std::uint64_t id;
    std::uint32_t slot;
    std::uint32_t lane;
    std::uint32_t number;  // Among the lane's, from 0.
    bool received = false;
    bool announced = false;
    Arrival arrival;  // Once announced.
    TraceSpan trace;  // From then on.
  };
  using Entry = std::shared_ptr<Incoming>;
  struct Lane {
    std::deque<Entry> posted;  // And not announced, in their order.
    std::uint32_t count = 0;   // Ever posted.
    std::uint32_t ungranted = 0;
  };
  void Trace(const Incoming& incoming) const;
  bool TakeSlot();
  void Post(std::uint32_t slot);

  const RouteKey route_;
  const std::uint32_t agent_;
  const std::uint32_t tag_;
  const std::shared_ptr<Attachment> memory_;
  Carrier& carrier_;
  BulkTable& table_;
  std::vector<Lane> lanes_;
  std::deque<Entry> announced_;  // In their order, and not posted to the channel.
  // Receives by their id, as long as they are not complete.
  std::unordered_map<std::uint64_t, Entry> receives_;
  std::optional<std::uint32_t> slot_;  // Taken, and no receive posted into it yet.
  std::uint32_t held_ = 0;             // Slots that are posted or announced.
  std::uint32_t unfinished_ = 0;       // Receives.
  bool shut_ = false;
  bool ended_ = false;
};

}  // namespace cuspan
