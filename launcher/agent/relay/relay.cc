#include "launcher/agent/relay/relay.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "common/log.h"

namespace cuspan {
namespace {

// Maximum bytes of frames from one end of a route in flight or in the other end's backlog.
constexpr std::uint64_t kFrameWindow = 512 * 1024;
// Minimum credit returned at a time, in bytes: each grant costs a message.
constexpr std::uint64_t kGrantBytes = kFrameWindow / 4;
// Maximum bytes of frames from one route per pass, for fairness among routes.
constexpr std::size_t kBytesPerPass = 64 * 1024;
constexpr int kMessagesPerPass = 32;
// Messages after which an agent no longer expects a frame for a proxy. Agents send keep-alives
// every 2 s.
constexpr int kMostVainWakes = 4;

std::size_t FrameBytes(const FrameHeader& header) { return sizeof header + header.payload_bytes; }

bool IsCall(Op op) {
  bool call = false;
  WithOp(op, [&call]<typename T>() { call = T::kClass == OpClass::kCall; });
  return call;
}

}  // namespace

Relay::Relay(Transport& transport, Carrier& carrier, std::uint32_t sends_in_flight,
             Handlers handlers)
    : transport_(transport), carrier_(carrier), handlers_(std::move(handlers)) {
  const Transport::Limits& limits = transport.limits();
  assert(limits.message_bytes >= BatchWriter::kMinMessageBytes);
  for (std::uint32_t rank = 0; rank < transport.size(); ++rank)
    peers_.emplace_back(
        transport, rank,
        std::make_unique<ChunkSends>(rank, sends_in_flight, limits, carrier_, bulk_));
}

Relay::Route* Relay::Find(RouteKey key) {
  const auto found = routes_.find(key);
  return found == routes_.end() ? nullptr : &found->second;
}

std::uint32_t Relay::FreeTag(std::uint32_t rank) {
  do last_tag_ = last_tag_ % transport_.limits().tags + 1;
  while (inboxes_.contains({rank, last_tag_}));
  return last_tag_;
}

void Relay::Route::TellFarWake(const Transport& transport) {
  if (has_far_wake || channel->side() != ChannelSide::kProxy) return;
  const std::optional<FarWake> wake = transport.WakeOf(rank);
  if (!wake) return;
  channel->ahead().SetFarWake(*wake);
  has_far_wake = true;
}

void Relay::Open(RouteKey key, std::uint32_t rank, std::shared_ptr<Channel> channel) {
  Close(key);
  Route& route = routes_[key];
  route.key = key;
  route.rank = rank;
  route.memory = std::make_shared<Attachment>(carrier_, channel);
  if (!route.memory->status().ok()) route.failure = route.memory->status().message();
  route.channel = std::move(channel);
  route.frame_credit = kFrameWindow;
  route.lane_credit.resize(carrier_.lanes());
  const std::uint32_t tag = FreeTag(rank);
  std::unique_ptr<ChunkInbox>& inbox = inboxes_[{rank, tag}];
  inbox = std::make_unique<ChunkInbox>(key, rank, tag, route.memory, carrier_, bulk_);
  route.inbox = inbox.get();
  ++peers_[rank].routes;
  if (route.failure.empty()) inbox->PostAhead();
  Grant(route);
  SetPace(route);
  route.TellFarWake(transport_);
}

void Relay::Close(RouteKey key) {
  Route* route = Find(key);
  if (route == nullptr) return;
  Peer& peer = peers_[route->rank];
  --peer.routes;
  route->inbox->Shut();
  // The other end cancels its receives for chunks not sent.
  if (route->send_tag != 0)
    SendControl(route->rank, RemoteClosed{route->send_tag, peer.sends->End(route->send_tag)});
  routes_.erase(key);
  ForgetOverInboxes();
}

void Relay::ForgetOverInboxes() {
  std::erase_if(inboxes_, [](const auto& entry) { return entry.second->over(); });
}

void Relay::SetPace(Route& route) {
  const Peer& peer = peers_[route.rank];
  const Pace pace = peer.sends->rate().PaceFor(route.channel->layout(), peer.routes);
  if (pace == route.pace) return;
  route.pace = pace;
  route.channel->SetPace(pace);
}

void Relay::Flush(RouteKey key) {
  if (Route* route = Find(key); route != nullptr) {
    while (route->failure.empty() && Collect(*route)) {
    }
  }
}

bool Relay::awaiting() const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [](const auto& entry) {
                       const Route& route = entry.second;
                       return route.open_calls > 0 || route.open_records > 0 ||
                              route.awaits_chunk || !route.waiting_chunks.empty() ||
                              route.held_slot;
                     }) ||
         std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.given_up && !peer.sends->empty(); }) ||
         std::any_of(inboxes_.begin(), inboxes_.end(),
                     [](const auto& entry) { return entry.second->awaits_chunks(); });
}

bool Relay::quiet() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) {
                       return peer.given_up || (peer.outbox.empty() && peer.sends->empty());
                     }) &&
         std::none_of(inboxes_.begin(), inboxes_.end(),
                      [this](const auto& entry) CUSPAN_REQUIRES(agent_thread) {
                        return entry.second->shut() && !gave_up(entry.first.first);
                      });
}

bool Relay::congested() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.outbox.congested(); });
}

void Relay::GiveUp(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  peer.given_up = true;
  peer.outbox.Close();
  transport_.GiveUp(rank);
  carrier_.GiveUp(rank);
}

Transport::Rest Relay::Arm() {
  const bool sent = std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.given_up || peer.outbox.empty();
  });
  return sent ? transport_.Arm() : Transport::Rest::kNaps;
}

bool Relay::HasWork() {
  bool work = carrier_.HasWork() || std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
                return peer.outbox.awaits_answer();
              });
  for (auto& [key, route] : routes_) {
    if (route.channel->closed() || !route.failure.empty()) continue;
    work = work || (route.channel->HasFrame() && route.frame_credit >= route.needed_credit);
    // Frames or chunks waiting for room in the channel.
    const ChunkInbox::Arrival* const arrival = route.inbox->Front();
    if (const std::size_t bytes = !route.backlog.empty() ? route.backlog.front().size()
                                  : arrival != nullptr
                                      ? sizeof(FrameHeader) + EncodedSize(arrival->chunk)
                                      : 0;
        bytes != 0) {
      route.channel->WantRoom();
      work = work || route.channel->HasRoom(bytes);
    }
    work = route.inbox->CanPost() || work;
  }
  return work;
}

bool Relay::PassOnFirst() {
  for (auto& [key, route] : routes_) {
    if (!route.channel->HasFrame() || route.frame_credit < route.needed_credit) continue;
    if (route.channel->ahead().ConsumeFarWoken())
      transport_.Woken(route.rank);
    else
      transport_.Announce(route.rank);
    route.TellFarWake(transport_);
  }
  return PassOn();
}

void Relay::WakeNextProxy() {
  if (last_received_.vain_wakes == kMostVainWakes) return;
  ++last_received_.vain_wakes;
  if (Route* route = Find(last_received_.route);
      route != nullptr && route->channel->side() == ChannelSide::kClient)
    route->channel->ahead().Expect();
}

bool Relay::Progress() {
  bool moved = ReceiveMessages();
  moved = FinishBulk() || moved;
  moved = PassOn() || moved;
  CloseBroken();
  return moved;
}

bool Relay::PassOn() {
  bool moved = false;
  for (auto& [key, route] : routes_) {
    if (route.channel->closed() || !route.failure.empty()) continue;
    moved = Deliver(route) || moved;
    moved = route.inbox->PostAhead() || moved;
    Grant(route);
    moved = AnnounceChunks(route) || moved;
    moved = Collect(route) || moved;
  }
  const auto now = std::chrono::steady_clock::now();
  for (Peer& peer : peers_) {
    // Most have nothing to send; with MPI lanes are among the ranks.
    if (peer.given_up) continue;
    if (!peer.sends->empty()) moved = peer.sends->Start(now) || moved;
    if (!peer.outbox.empty()) moved = peer.outbox.Send() || moved;
  }
  return moved;
}

void Relay::CloseBroken() {
  std::vector<std::pair<RouteKey, std::string>> broken;
  for (const auto& [key, route] : routes_)
    if (!route.failure.empty()) broken.emplace_back(key, route.failure);
  for (const auto& [key, reason] : broken) {
    Close(key);
    handlers_.broken(key, reason);
  }
}

// --- Messages from other agents.

bool Relay::ReceiveMessages() {
  bool has_updates = false;
  for (int i = 0; i < kMessagesPerPass; ++i) {
    const std::optional<Transport::Message> message = transport_.TryReceive();
    if (!message) return has_updates;
    Peer& sender = peers_[message->rank];
    ++sender.message_count;
    if (sender.given_up) continue;
    BatchReader reader(message->bytes);
    for (;;) {
      const Result<std::optional<BatchReader::Item>> item = reader.Next();
      if (!item.ok()) {
        // Logged once: the agent has another version or is corrupt.
        if (!std::exchange(sender.garbled, true))
          LogError("dropped a message from agent {}: {}", message->rank, item.status().message());
        break;
      }
      if (!item->has_value()) break;
      has_updates = has_updates || IsUpdate((*item)->route, (*item)->frame.op());
      ReceiveItem(message->rank, **item);
    }
  }
  return has_updates;
}

void Relay::ReceiveItem(std::uint32_t rank, const BatchReader::Item& item) {
  if (item.route.session == 0) {
    if (item.frame.op() == Op::kRemoteCredit) return ReceiveCredit(rank, item.frame);
    if (item.frame.op() == Op::kRemoteChunk) return ReceiveRemoteChunk(rank, item.frame);
    if (item.frame.op() == Op::kRemoteClosed) return ReceiveRemoteClosed(rank, item.frame);
    return handlers_.control(rank, item.frame);
  }
  // Drops frames for a route closed here in the meantime.
  Route* route = Find(item.route);
  if (route == nullptr || route->rank != rank || !route->failure.empty()) return;
  last_received_ = {item.route};
  ReceiveFrame(*route, item.frame);
}

void Relay::ReceiveFrame(Route& route, const Frame& frame) {
  CountAnswers(route, frame);
  if (route.backlog.empty() && PostToChannel(route, frame.header, frame.payload)) return;
  std::vector<std::byte> kept(FrameBytes(frame.header));
  std::memcpy(kept.data(), &frame.header, sizeof frame.header);
  if (!frame.payload.empty())
    std::memcpy(kept.data() + sizeof frame.header, frame.payload.data(), frame.payload.size());
  route.backlog_bytes += kept.size();
  route.backlog.push_back(std::move(kept));
  if (route.backlog_bytes > kFrameWindow)
    route.failure = "the other agent sent more than it was allowed to";
}

void Relay::CountAnswers(Route& route, const Frame& frame) {
  const auto less = [](std::int64_t count) { return std::max<std::int64_t>(count - 1, 0); };
  if (frame.header.is_reply()) {
    route.open_calls = less(route.open_calls);
    return;
  }
  switch (frame.op()) {
    case Op::kEventRecord:
      ++route.open_records;
      return;
    case Op::kEventReached:
      route.open_records = less(route.open_records);
      return;
    case Op::kCopyFromDevice:
    case Op::kCopyBoxFromDevice:
      route.awaits_chunk = true;
      return;
    case Op::kChunkInline:
    case Op::kTransferFailed:
      route.awaits_chunk = false;
      return;
    default:
      if (IsCall(frame.op())) ++route.open_calls;
  }
}

bool Relay::PostToChannel(Route& route, const FrameHeader& header, Bytes payload) {
  if (!route.channel->TryPost(header, payload)) return false;
  // A Chunk uses no frame credit: its bytes were granted as slots.
  if (static_cast<Op>(header.op) != Op::kChunk) route.consumed += FrameBytes(header);
  return true;
}

void Relay::ReceiveCredit(std::uint32_t rank, const Frame& frame) {
  const Result<RemoteCredit> credit = ParseMessage<RemoteCredit>(frame);
  if (!credit.ok()) return LogError("agent {}: {}", rank, credit.status().message());
  Route* route = Find({credit->session, credit->context});
  if (route == nullptr || route->rank != rank) {
    // The route was closed here before the other end opened it: no chunks were sent.
    if (credit->opening)
      SendControl(rank,
                  RemoteClosed{credit->tag, std::vector<std::uint32_t>(credit->chunks.size())});
    return;
  }
  if (credit->opening && route->send_tag == 0) {
    route->send_tag = credit->tag;
    route->far_slot_bytes = credit->slot_bytes;
    if (credit->chunks.size() != route->lane_credit.size())
      route->failure = Format("the other agent has {} lanes and this one {}", credit->chunks.size(),
                              route->lane_credit.size());
  }
  if (credit->tag != route->send_tag || credit->chunks.size() != route->lane_credit.size()) return;
  route->frame_credit += credit->bytes;
  for (std::size_t lane = 0; lane < route->lane_credit.size(); ++lane)
    route->lane_credit[lane] += credit->chunks[lane];
  if (route->held_slot && peers_[rank].sends->ChooseLane(route->lane_credit)) {
    route->channel->ReleaseSlot(*route->held_slot);
    route->held_slot.reset();
  }
}

void Relay::ReceiveRemoteChunk(std::uint32_t rank, const Frame& frame) {
  const Result<RemoteChunk> chunk = ParseMessage<RemoteChunk>(frame);
  if (!chunk.ok()) return LogError("agent {}: {}", rank, chunk.status().message());
  const auto inbox = inboxes_.find({rank, chunk->tag});
  if (inbox == inboxes_.end()) return;
  const Status taken = inbox->second->Announce(frame.header, *chunk);
  if (taken.ok()) return;
  for (auto& [key, route] : routes_)
    if (route.inbox == inbox->second.get()) route.failure = taken.message();
}

void Relay::ReceiveRemoteClosed(std::uint32_t rank, const Frame& frame) {
  const Result<RemoteClosed> closed = ParseMessage<RemoteClosed>(frame);
  if (!closed.ok()) return LogError("agent {}: {}", rank, closed.status().message());
  const auto inbox = inboxes_.find({rank, closed->tag});
  if (inbox == inboxes_.end()) return;
  inbox->second->End(closed->chunks);
  ForgetOverInboxes();
}

bool Relay::FinishBulk() {
  finished_.clear();
  carrier_.Finished(finished_);
  if (finished_.empty()) return false;
  const auto now = std::chrono::steady_clock::now();
  bool left_over = false;
  for (const std::uint64_t id : finished_) {
    const BulkOwner owner = bulk_.Extract(id);
    if (owner.inbox != nullptr) {
      owner.inbox->Received(id);
      left_over = left_over || owner.inbox->shut();
    }
    if (owner.sends == nullptr) continue;
    const std::optional<ChunkSends::Item> sent = owner.sends->Finished(id, now);
    // The route may have been closed, and one with the same key opened, in the meantime.
    Route* route = sent ? Find(sent->route) : nullptr;
    if (route == nullptr || route->memory != sent->memory) continue;
    FinishSend(*route, sent->chunk.slot);
    SetPace(*route);
  }
  if (left_over) ForgetOverInboxes();
  return true;
}

void Relay::FinishSend(Route& route, std::uint32_t slot) {
  route.busy_slots &= ~(std::uint64_t{1} << slot);
  const bool credit = std::any_of(route.lane_credit.begin(), route.lane_credit.end(),
                                  [](std::uint32_t chunks) { return chunks != 0; });
  if (route.channel->layout().staging_slots == 1 && !credit)
    route.held_slot = slot;
  else
    route.channel->ReleaseSlot(slot);
}

// Posts waiting frames to the route's channel, then complete chunks.
bool Relay::Deliver(Route& route) {
  bool moved = false;
  while (!route.backlog.empty()) {
    FrameHeader header;
    std::memcpy(&header, route.backlog.front().data(), sizeof header);
    if (!PostToChannel(route, header, Bytes(route.backlog.front()).subspan(sizeof header))) {
      route.channel->WantRoom();
      return moved;
    }
    route.backlog_bytes -= route.backlog.front().size();
    route.backlog.pop_front();
    moved = true;
  }
  return DeliverChunks(route) || moved;
}

bool Relay::DeliverChunks(Route& route) {
  bool moved = false;
  while (const ChunkInbox::Arrival* arrival = route.inbox->Front()) {
    std::byte payload[64];
    const std::size_t bytes = EncodedSize(arrival->chunk);
    EncodeInto(std::span(payload, bytes), arrival->chunk);
    FrameHeader header = arrival->header;
    header.op = static_cast<std::uint16_t>(Op::kChunk);
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    if (!PostToChannel(route, header, Bytes(payload, bytes))) {
      route.channel->WantRoom();
      return moved;
    }
    route.inbox->PopFront();
    route.awaits_chunk = false;
    moved = true;
  }
  return moved;
}

void Relay::Grant(Route& route) {
  const std::uint32_t portion =
      std::max<std::uint32_t>(route.channel->layout().staging_slots / 4, 1);
  // The first grant is sent in any case: the other end cannot send without its tag and slot size.
  const std::uint32_t least = route.granted && route.consumed < kGrantBytes ? portion : 0;
  const std::optional<std::vector<std::uint32_t>> chunks = route.inbox->ConsumeGrants(least);
  if (!chunks) return;
  SendControl(route.rank, RemoteCredit{route.key.session, route.key.context, route.inbox->tag(),
                                       !std::exchange(route.granted, true), route.consumed,
                                       route.channel->layout().staging_bytes, *chunks});
  route.consumed = 0;
}

// --- Messages to other agents.

// Announces chunks covered by the other end's receives, and queues them.
bool Relay::AnnounceChunks(Route& route) {
  bool moved = false;
  Peer& peer = peers_[route.rank];
  while (!route.waiting_chunks.empty()) {
    const std::optional<std::uint32_t> lane = peer.sends->ChooseLane(route.lane_credit);
    if (!lane) break;
    const auto& [header, chunk] = route.waiting_chunks.front();
    if (chunk.bytes > route.far_slot_bytes) {
      route.failure = Format(
          "a chunk of {} bytes is larger than the other node's staging buffers: "
          "give all agents the same CUSPAN_STAGING_BYTES",
          chunk.bytes);
      break;
    }
    const RemoteChunk announced{route.send_tag, *lane, chunk.transfer, chunk.offset, chunk.bytes};
    std::byte payload[64];
    FrameHeader frame = header;
    frame.op = static_cast<std::uint16_t>(Op::kRemoteChunk);
    frame.payload_bytes = static_cast<std::uint32_t>(EncodedSize(announced));
    const std::span<std::byte> encoded(payload, frame.payload_bytes);
    EncodeInto(encoded, announced);
    const std::optional<std::uint64_t> number = peer.outbox.Announce(frame, encoded);
    if (!number) break;
    --route.lane_credit[*lane];
    peer.sends->Queue(*lane, {route.key, route.send_tag, route.memory, chunk, *number});
    route.waiting_chunks.pop_front();
    moved = true;
  }
  return moved;
}

// Moves frames from the channel while the other end has room and the pass is within its limit.
bool Relay::Collect(Route& route) {
  std::size_t collected = 0;
  while (route.failure.empty() && collected < kBytesPerPass) {
    const Result<std::optional<Frame>> frame = route.channel->Peek();
    if (!frame.ok()) {
      route.failure = frame.status().message();
      break;
    }
    if (!frame->has_value() || !CollectFrame(route, **frame)) break;
    collected += FrameBytes((*frame)->header);
    route.channel->Pop();
  }
  return collected != 0;
}

bool Relay::CollectFrame(Route& route, const Frame& frame) {
  if (frame.op() == Op::kChunk) return CollectChunk(route, frame);
  const std::size_t bytes = FrameBytes(frame.header);
  route.needed_credit = bytes;
  if (route.frame_credit < bytes) return false;
  Outbox& outbox = peers_[route.rank].outbox;
  if (!outbox.Append(route.key, frame.header, frame.payload)) return false;
  if (frame.op() == Op::kChunkInline && route.open_calls > 0)
    outbox.AwaitAnswer();
  else
    outbox.Urge();
  route.needed_credit = 0;
  route.frame_credit -= bytes;
  CountAnswers(route, frame);
  return true;
}

bool Relay::CollectChunk(Route& route, const Frame& frame) {
  const Result<Chunk> chunk = ParseMessage<Chunk>(frame);
  if (!chunk.ok()) {
    route.failure = chunk.status().message();
    return false;
  }
  if (route.channel->IncomingSlot(chunk->slot) == nullptr ||
      chunk->bytes > route.channel->layout().staging_bytes ||
      (route.busy_slots >> chunk->slot & 1) != 0) {
    route.failure =
        Format("a chunk of {} bytes in staging slot {}, which does not exist or is not free",
               chunk->bytes, chunk->slot);
    return false;
  }
  route.awaits_chunk = false;
  route.busy_slots |= std::uint64_t{1} << chunk->slot;
  route.waiting_chunks.emplace_back(frame.header, *chunk);
  AnnounceChunks(route);
  return true;
}

}  // namespace cuspan
