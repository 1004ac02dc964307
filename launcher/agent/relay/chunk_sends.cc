#include "launcher/agent/relay/chunk_sends.h"

#include <algorithm>

namespace cuspan {
namespace {

// Sends always allowed in flight: with fewer, even a slow link would be idle between two of them.
constexpr std::uint32_t kMinSends = 2;

}  // namespace

ChunkSends::ChunkSends(std::uint32_t agent, std::uint32_t most, const Transport::Limits& limits,
                       Carrier& carrier, BulkTable& table)
    : agent_(agent),
      most_(most),
      most_together_(limits.begins_in_halves ? std::max(most / 2, 1U) : most),
      carrier_(carrier),
      table_(table),
      lanes_(carrier.lanes()),
      rate_(limits.least_chunk) {}

std::optional<std::uint32_t> ChunkSends::ChooseLane(std::span<const std::uint32_t> credit) const {
  std::optional<std::uint32_t> best;
  for (std::uint32_t lane = 0; lane < lanes_.size() && lane < credit.size(); ++lane)
    if (credit[lane] != 0 && (!best || lanes_[lane].bytes < lanes_[*best].bytes)) best = lane;
  return best;
}

void ChunkSends::Queue(std::uint32_t lane, Item item) {
  lanes_[lane].bytes += item.chunk.bytes;
  lanes_[lane].queue.push_back(std::move(item));
}

bool ChunkSends::MayStart(const Lane& lane) const {
  if (lane.queue.empty() || lane.sends >= most_) return false;
  return under_way_ < kMinSends ||
         bytes_under_way_ + lane.queue.front().chunk.bytes <= rate_.window_bytes();
}

bool ChunkSends::Start(LinkRate::Time now) {
  bool started = false;
  for (std::uint32_t number = 0; number < lanes_.size(); ++number) {
    Lane& lane = lanes_[number];
    for (std::uint32_t i = 0; i < most_together_ && MayStart(lane); ++i) {
      Item item = std::move(lane.queue.front());
      lane.queue.pop_front();
      ++lane.sends;
      ++under_way_;
      bytes_under_way_ += item.chunk.bytes;
      started_announcement_ = std::max(started_announcement_, item.announcement);
      std::vector<std::uint32_t>& sent = sent_[item.tag];
      sent.resize(lanes_.size());
      ++sent[number];
      rate_.Started(now);
      const std::uint64_t id = table_.Add({.sends = this});
      const TraceSpan trace;
      carrier_.Send(agent_, number, item.tag,
                    {&item.memory->channel(), false, item.chunk.slot, item.chunk.bytes}, id);
      sending_.emplace(id, Sending{number, std::move(item), trace});
      started = true;
    }
  }
  return started;
}

std::optional<ChunkSends::Item> ChunkSends::Finished(std::uint64_t id, LinkRate::Time now) {
  const auto found = sending_.find(id);
  if (found == sending_.end()) return std::nullopt;
  Item item = std::move(found->second.item);
  found->second.trace.Done(TraceKind::kNetworkSend, item.route.context, item.chunk.transfer,
                           item.chunk.offset, item.chunk.bytes, item.route.session);
  Lane& lane = lanes_[found->second.lane];
  sending_.erase(found);
  --lane.sends;
  lane.bytes -= item.chunk.bytes;
  --under_way_;
  bytes_under_way_ -= item.chunk.bytes;
  rate_.Finished(item.chunk.bytes, now);
  return item;
}

std::vector<std::uint32_t> ChunkSends::End(std::uint32_t tag) {
  for (Lane& lane : lanes_)
    std::erase_if(lane.queue, [&](const Item& item) {
      if (item.tag != tag) return false;
      lane.bytes -= item.chunk.bytes;
      return true;
    });
  const auto found = sent_.find(tag);
  if (found == sent_.end()) return std::vector<std::uint32_t>(lanes_.size());
  std::vector<std::uint32_t> sent = std::move(found->second);
  sent_.erase(found);
  return sent;
}

}  // namespace cuspan
