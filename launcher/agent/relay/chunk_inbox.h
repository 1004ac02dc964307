// The receiving half of a route's chunks. Every free slot of the channel gets a receive posted
// ahead, and the other end gets credit for it. While slots are free, a sender never waits for a
// receive. A frame announces a chunk; its bytes arrive separately, on any of the carrier's lanes.
//
// Posted receives outlive their route. They end when the other end has reported the number of
// chunks it sent (RemoteClosed): surplus receives are cancelled, the others awaited.
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

// Threads: one.
class ChunkInbox {
 public:
  // A chunk in the form posted to the channel.
  struct Arrival {
    FrameHeader header;
    Chunk chunk;
  };

  // `tag`: unique among the inboxes for `agent`. `carrier` and `table` outlive the inbox.
  ChunkInbox(RouteKey route, std::uint32_t agent, std::uint32_t tag,
             std::shared_ptr<Attachment> memory, Carrier& carrier, BulkTable& table);

  // Posts receives into all free slots; true if any was posted.
  bool PostAhead();
  // True if PostAhead would find a slot; cheap. If false, the bell rings when a slot becomes free.
  bool CanPost();
  // Returns the number of receives not yet granted to the other end, by lane, and counts them as
  // granted. Empty if there are fewer than `least`.
  std::optional<std::vector<std::uint32_t>> ConsumeGrants(std::uint32_t least);

  // Handles the announcement of a chunk. kInvalid if no receive is posted for it.
  Status Announce(const FrameHeader& header, const RemoteChunk& chunk);
  // Handles the completion of receive `id`.
  void Received(std::uint64_t id);
  // The next chunk in order of announcement, if its bytes have arrived; else null.
  const Arrival* Front() const;
  void PopFront();
  // True if announced chunks have not been posted to the channel yet.
  bool awaits_chunks() const { return !announced_.empty(); }

  // Called when the route is closed: chunks are not delivered any more.
  void Shut();
  bool shut() const { return shut_; }
  // The other end sent these numbers of chunks, by lane, and sends no more.
  void End(const std::vector<std::uint32_t>& sent);
  // True if the inbox is shut and no receive is in flight.
  bool over() const { return shut_ && ended_ && unfinished_ == 0; }
  std::uint32_t tag() const { return tag_; }

 private:
  struct Incoming {
    std::uint64_t id;
    std::uint32_t slot;
    std::uint32_t lane;
    std::uint32_t number;  // Position among the lane's receives, from 0.
    bool received = false;
    bool announced = false;
    Arrival arrival;  // Valid once announced.
    TraceSpan trace;  // Started by the announcement.
  };
  using Entry = std::shared_ptr<Incoming>;
  struct Lane {
    std::deque<Entry> posted;  // Not announced yet, in order.
    std::uint32_t count = 0;   // Total number posted.
    std::uint32_t ungranted = 0;
  };
  void Trace(const Incoming& incoming) const;
  bool AcquireSlot();
  void Post(std::uint32_t slot);

  const RouteKey route_;
  const std::uint32_t agent_;
  const std::uint32_t tag_;
  const std::shared_ptr<Attachment> memory_;
  Carrier& carrier_;
  BulkTable& table_;
  std::vector<Lane> lanes_;
  std::deque<Entry> announced_;  // Not yet posted to the channel, in order.
  // Incomplete receives by id.
  std::unordered_map<std::uint64_t, Entry> receives_;
  std::optional<std::uint32_t> slot_;  // Acquired, but no receive posted into it yet.
  std::uint32_t held_ = 0;             // Slots posted or announced.
  std::uint32_t unfinished_ = 0;       // Receives in flight.
  bool shut_ = false;
  bool ended_ = false;
};

}  // namespace cuspan
