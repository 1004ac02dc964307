// The chunks on their way to one agent, of all routes: on each lane some are
// being sent, W of them at most and no more bytes than a slow link passes in a
// few milliseconds, and the others wait in the order in which they were announced.
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

// One thread.
class ChunkSends {
 public:
  struct Item {
    RouteKey route;
    std::uint32_t tag;  // Of the inbox at the other end.
    std::shared_ptr<Attachment> memory;
    Chunk chunk;
    std::uint64_t announcement;  // Counts what was announced to this agent.
  };

  // `limits`, `carrier` and `table` outlive it. `most`: sends at a time on each lane.
  ChunkSends(std::uint32_t agent, std::uint32_t most, const Transport::Limits& limits,
             Carrier& carrier, BulkTable& table);

  // The lane with the fewest bytes before them, of those with credit.
  std::optional<std::uint32_t> ChooseLane(std::span<const std::uint32_t> credit) const;
  void Queue(std::uint32_t lane, Item item);
  // Begins what may be, on each lane no more together than the transport likes; true when there was
  // something.
  bool Start(LinkRate::Time now);
  // Of the last chunk that was begun.
  std::uint64_t started_announcement() const { return started_announcement_; }
  // The send `id` has ended.
  std::optional<Item> Finished(std::uint64_t id, LinkRate::Time now);
  // Drops what was announced under `tag` and not begun; how many were begun, by lane.
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
    std::uint64_t bytes = 0;  // Queued or being sent.
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
  std::map<std::uint32_t, std::vector<std::uint32_t>> sent_;  // By tag: by lane, begun.
  std::uint64_t bytes_under_way_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint64_t started_announcement_ = 0;
  LinkRate rate_;
};

}  // namespace cuspan
