// Chunks of all routes to one agent. Each lane sends up to W of them at a time. All lanes together
// send no more bytes than the link passes in a few milliseconds. The others wait in order of
// announcement.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/trace.h"
#include "launcher/agent/relay/batch.h"
#include "launcher/agent/relay/bulk_table.h"
#include "launcher/agent/relay/link_rate.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Threads: one.
class ChunkSends {
 public:
  struct Item {
    RouteKey route;
    std::uint32_t tag;  // Tag of the inbox at the other end.
    std::shared_ptr<Attachment> memory;
    Chunk chunk;
    std::uint64_t announcement;  // Sequence number among the announcements to this agent.
  };

  // `limits`, `carrier` and `table` outlive it. `most`: maximum number of sends in flight on each
  // lane (W).
  ChunkSends(std::uint32_t agent, std::uint32_t most, const Transport::Limits& limits,
             Carrier& carrier, BulkTable& table);

  // The lane with the fewest queued bytes among those with credit.
  std::optional<std::uint32_t> ChooseLane(std::span<const std::uint32_t> credit) const;
  void Queue(std::uint32_t lane, Item item);
  // Starts queued sends within the limits, on each lane at most the number preferred by the
  // transport (begins_in_halves). True if any was started.
  bool Start(LinkRate::Time now);
  // Announcement number of the last chunk started.
  std::uint64_t started_announcement() const { return started_announcement_; }
  // Handles the completion of send `id`.
  std::optional<Item> Finished(std::uint64_t id, LinkRate::Time now);
  // Drops chunks announced under `tag` and not started. Returns the number started, by lane.
  std::vector<std::uint32_t> End(std::uint32_t tag);

  bool empty() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const Lane& lane) { return lane.bytes == 0; });
  }
  const LinkRate& rate() const { return rate_; }

 private:
  struct Lane {
    std::deque<Item> queue;
    std::uint32_t sends = 0;
    std::uint64_t bytes = 0;  // Queued or in flight.
  };
  struct Sending {
    std::uint32_t lane;
    Item item;
    TraceSpan trace;
  };
  bool MayStart(const Lane& lane) const;

  const std::uint32_t agent_;
  const std::uint32_t most_;
  const std::uint32_t most_together_;
  Carrier& carrier_;
  BulkTable& table_;
  std::vector<Lane> lanes_;
  std::map<std::uint64_t, Sending> sending_;
  // Number of sends started, by tag and lane.
  std::map<std::uint32_t, std::vector<std::uint32_t>> sent_;
  std::uint64_t bytes_under_way_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint64_t started_announcement_ = 0;
  LinkRate rate_;
};

}  // namespace cuspan
