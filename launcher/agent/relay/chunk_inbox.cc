#include "launcher/agent/relay/chunk_inbox.h"

#include <algorithm>

namespace cuspan {

ChunkInbox::ChunkInbox(RouteKey route, std::uint32_t agent, std::uint32_t tag,
                       std::shared_ptr<Attachment> memory, Carrier& carrier, BulkTable& table)
    : route_(route),
      agent_(agent),
      tag_(tag),
      memory_(std::move(memory)),
      carrier_(carrier),
      table_(table),
      lanes_(carrier.lanes()) {}

bool ChunkInbox::AcquireSlot() {
  if (!slot_ && held_ < memory_->channel().layout().staging_slots)
    slot_ = memory_->channel().TryAcquireSlot();
  return slot_.has_value();
}

bool ChunkInbox::CanPost() { return !shut_ && !ended_ && AcquireSlot(); }

bool ChunkInbox::PostAhead() {
  bool posted = false;
  while (!shut_ && !ended_ && AcquireSlot()) {
    Post(*slot_);
    slot_.reset();
    posted = true;
  }
  return posted;
}

void ChunkInbox::Post(std::uint32_t slot) {
  // Balances the posted receives over the lanes.
  const auto lane = std::min_element(
      lanes_.begin(), lanes_.end(),
      [](const Lane& a, const Lane& b) { return a.posted.size() < b.posted.size(); });
  auto incoming = std::make_shared<Incoming>();
  incoming->id = table_.Add({.inbox = this});
  incoming->slot = slot;
  incoming->lane = static_cast<std::uint32_t>(lane - lanes_.begin());
  incoming->number = lane->count++;
  carrier_.Receive(agent_, incoming->lane, tag_,
                   {&memory_->channel(), true, slot,
                    static_cast<std::uint32_t>(memory_->channel().layout().staging_bytes)},
                   incoming->id);
  receives_.emplace(incoming->id, incoming);
  lane->posted.push_back(std::move(incoming));
  ++lane->ungranted;
  ++held_;
  ++unfinished_;
}

std::optional<std::vector<std::uint32_t>> ChunkInbox::ConsumeGrants(std::uint32_t least) {
  std::uint32_t count = 0;
  for (const Lane& lane : lanes_) count += lane.ungranted;
  if (count < least || shut_) return std::nullopt;
  std::vector<std::uint32_t> grants;
  for (Lane& lane : lanes_) grants.push_back(std::exchange(lane.ungranted, 0));
  return grants;
}

Status ChunkInbox::Announce(const FrameHeader& header, const RemoteChunk& chunk) {
  if (ended_) return Status::Ok();
  if (chunk.lane >= lanes_.size() || lanes_[chunk.lane].posted.empty())
    return Status::Invalid("the other agent sent a chunk without a free slot");
  if (chunk.bytes > memory_->channel().layout().staging_bytes)
    return Status::Invalid("the other agent sent a chunk of {} bytes for a slot of {}", chunk.bytes,
                           memory_->channel().layout().staging_bytes);
  Lane& lane = lanes_[chunk.lane];
  const Entry incoming = std::move(lane.posted.front());
  lane.posted.pop_front();
  incoming->arrival.header = header;
  incoming->arrival.chunk = {chunk.transfer, chunk.offset, chunk.bytes, incoming->slot};
  incoming->announced = true;
  incoming->trace = TraceSpan();
  if (!incoming->received)
    carrier_.Expect(incoming->lane, incoming->id);
  else
    Trace(*incoming);
  if (!shut_) announced_.push_back(incoming);
  return Status::Ok();
}

// Called when the chunk is both announced and received.
void ChunkInbox::Trace(const Incoming& incoming) const {
  const Chunk& chunk = incoming.arrival.chunk;
  incoming.trace.Done(TraceKind::kNetworkReceive, route_.context, chunk.transfer, chunk.offset,
                      chunk.bytes, route_.session);
}

void ChunkInbox::Received(std::uint64_t id) {
  const auto found = receives_.find(id);
  if (found == receives_.end()) return;
  if (found->second->announced) Trace(*found->second);
  found->second->received = true;
  receives_.erase(found);
  --unfinished_;
}

const ChunkInbox::Arrival* ChunkInbox::Front() const {
  if (announced_.empty() || !announced_.front()->received) return nullptr;
  return &announced_.front()->arrival;
}

void ChunkInbox::PopFront() {
  announced_.pop_front();
  --held_;
}

void ChunkInbox::Shut() {
  shut_ = true;
  announced_.clear();
}

void ChunkInbox::End(const std::vector<std::uint32_t>& sent) {
  if (std::exchange(ended_, true)) return;
  for (auto entry = receives_.begin(); entry != receives_.end();) {
    const Incoming& incoming = *entry->second;
    const std::uint32_t count = incoming.lane < sent.size() ? sent[incoming.lane] : 0;
    if (incoming.number < count) {
      carrier_.Expect(incoming.lane, incoming.id);
      ++entry;
      continue;
    }
    carrier_.Cancel(incoming.lane, incoming.id);
    table_.Extract(incoming.id);
    --unfinished_;
    entry = receives_.erase(entry);
  }
  // No further announcements follow, and cancelled receives get no bytes.
  for (Lane& lane : lanes_) lane.posted.clear();
  std::erase_if(announced_, [this](const Entry& incoming) {
    return !incoming->received && !receives_.contains(incoming->id);
  });
}

}  // namespace cuspan
