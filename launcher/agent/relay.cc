#include "launcher/agent/relay.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace cuspan {
namespace {

// Bytes of frames that one end of a route may have under way or in the other's backlog.
constexpr std::uint64_t kFrameWindow = 512 * 1024;
// Granted again in portions: each costs a message.
constexpr std::uint64_t kGrantBytes = kFrameWindow / 4;
// Frames of one route in one pass, so that others have their turn.
constexpr std::size_t kBytesPerPass = 64 * 1024;
constexpr int kMessagesPerPass = 32;
// MPI promises tags up to 32,767 only; far more than can be under way to one agent.
constexpr std::uint32_t kTags = 32'000;

// A bulk send that takes longer is on a slow link. Two keep that busy (measured at 1 and 10
// Gbit/s); with four a frame waits 34 ms at 1 Gbit/s, with two 17.
constexpr std::chrono::milliseconds kSlowSend{4};
constexpr std::uint32_t kSlowSendsInFlight = 2;

std::size_t FrameBytes(const FrameHeader& header) { return sizeof header + header.payload_bytes; }

bool IsCall(Op op) {
  bool call = false;
  WithOp(op, [&call]<typename T>() { call = T::kClass == OpClass::kCall; });
  return call;
}

}  // namespace

Relay::Relay(Transport& transport, std::uint32_t sends_in_flight, Handlers handlers)
    : transport_(transport),
      sends_in_flight_(sends_in_flight),
      handlers_(std::move(handlers)),
      peers_(transport.size()) {}

Relay::Route* Relay::Find(RouteKey key) {
  const auto found = routes_.find(key);
  return found == routes_.end() ? nullptr : &found->second;
}

void Relay::Open(RouteKey key, std::uint32_t rank, std::shared_ptr<Channel> channel) {
  Route& route = routes_[key];
  route = Route{};
  route.key = key;
  route.rank = rank;
  route.slots_outside = channel->layout().staging_slots;
  route.channel = std::move(channel);
  route.frame_credit = kFrameWindow;
  ReserveSlots(route);
  Grant(route);
}

void Relay::Close(RouteKey key) { routes_.erase(key); }

void Relay::Flush(RouteKey key) {
  if (Route* route = Find(key); route != nullptr) {
    while (route->failure.empty() && Collect(*route)) {
    }
  }
}

bool Relay::awaiting_replies() const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [](const auto& entry) { return entry.second.open_calls > 0; });
}

bool Relay::quiet() const {
  return bulks_.empty() && std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
           return peer.control.empty() && peer.batch.empty();
         });
}

bool Relay::HasWork() {
  bool work = false;
  for (auto& [key, route] : routes_) {
    if (route.channel->closed()) continue;
    work = work || (route.channel->HasFrame() && route.frame_credit >= route.needed_credit);
    if (!route.backlog.empty()) {
      route.channel->WantRoom();
      work = work || route.channel->HasRoom(route.backlog.front().size());
    }
    work = ReserveSlots(route) || work;
  }
  return work;
}

bool Relay::Progress() {
  bool moved = ReceiveMessages();
  moved = FinishBulk() || moved;
  for (auto& [key, route] : routes_) {
    if (route.channel->closed()) continue;
    moved = Deliver(route) || moved;
    moved = ReserveSlots(route) || moved;
    Grant(route);
    moved = StartChunks(route) || moved;
    moved = Collect(route) || moved;
  }
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) moved = SendBatch(rank) || moved;
  CloseBroken();
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

// --- From other agents.

bool Relay::ReceiveMessages() {
  bool received = false;
  for (int i = 0; i < kMessagesPerPass; ++i) {
    const std::optional<Transport::Message> message = transport_.TryReceive();
    if (!message) return received;
    received = true;
    BatchReader reader(message->bytes);
    for (;;) {
      const Result<std::optional<BatchReader::Item>> item = reader.Next();
      if (!item.ok()) {
        // Once is enough: it is not of our version, or out of order.
        if (!std::exchange(peers_[message->rank].garbled, true))
          LogError("a message of agent {} is dropped: {}", message->rank, item.status().message());
        break;
      }
      if (!item->has_value()) break;
      TakeItem(message->rank, **item);
    }
  }
  return received;
}

void Relay::TakeItem(std::uint32_t rank, const BatchReader::Item& item) {
  if (item.route.session == 0) {
    if (item.frame.op() == Op::kRemoteCredit) return TakeCredit(rank, item.frame);
    if (item.frame.op() == Op::kRemoteChunk) return TakeRemoteChunk(rank, item.frame);
    return handlers_.control(rank, item.frame);
  }
  // Frames for a route that was closed here meanwhile are on their way for nothing.
  Route* route = Find(item.route);
  if (route == nullptr || route->rank != rank || !route->failure.empty()) return;
  TakeFrame(*route, item.frame);
}

void Relay::TakeFrame(Route& route, const Frame& frame) {
  CountCall(route, frame);
  if (route.backlog.empty() && PostToChannel(route, frame.header, frame.payload)) return;
  std::vector<std::byte> kept(FrameBytes(frame.header));
  std::memcpy(kept.data(), &frame.header, sizeof frame.header);
  if (!frame.payload.empty())
    std::memcpy(kept.data() + sizeof frame.header, frame.payload.data(), frame.payload.size());
  route.backlog_bytes += kept.size();
  route.backlog.push_back(std::move(kept));
  if (route.backlog_bytes > kFrameWindow)
    route.failure = "the other agent sent more than it had room for";
}

void Relay::CountCall(Route& route, const Frame& frame) {
  if (frame.header.is_reply())
    route.open_calls = std::max<std::int64_t>(route.open_calls - 1, 0);
  else if (IsCall(frame.op()))
    ++route.open_calls;
}

bool Relay::PostToChannel(Route& route, const FrameHeader& header, Bytes payload) {
  if (!route.channel->TryPost(header, payload)) return false;
  // A Chunk has not used up frame credit: its bytes were granted as slots.
  if (static_cast<Op>(header.op) != Op::kChunk) route.consumed += FrameBytes(header);
  return true;
}

void Relay::TakeCredit(std::uint32_t rank, const Frame& frame) {
  const Result<RemoteCredit> credit = ParseMessage<RemoteCredit>(frame);
  if (!credit.ok()) return LogError("agent {}: {}", rank, credit.status().message());
  Route* route = Find({credit->session, credit->device});
  if (route == nullptr || route->rank != rank) return;
  route->frame_credit += credit->bytes;
  route->chunk_credit += credit->chunks;
  if (route->held_slot && route->chunk_credit != 0) {
    route->channel->ReleaseSlot(*route->held_slot);
    route->held_slot.reset();
  }
}

void Relay::TakeRemoteChunk(std::uint32_t rank, const Frame& frame) {
  const Result<RemoteChunk> header = ParseMessage<RemoteChunk>(frame);
  if (!header.ok()) return LogError("agent {}: {}", rank, header.status().message());
  const RouteKey key{header->session, header->device};
  Route* route = Find(key);
  Bulk bulk;
  bulk.route = key;
  bulk.rank = rank;
  const std::uint64_t id = ++last_bulk_;
  const bool usable = route != nullptr && route->rank == rank && route->failure.empty();
  if (usable && route->reserved_slots.empty())
    route->failure = "the other agent sent a chunk that it had no room for";
  if (usable && header->bytes > route->channel->layout().staging_bytes)
    route->failure = Format(
        "a chunk of {} bytes is larger than this node's staging buffers: "
        "give all agents the same CUSPAN_STAGING_BYTES",
        header->bytes);
  if (!usable || !route->failure.empty()) {
    // The sender waits until its bytes are taken.
    bulk.discarded.resize(header->bytes);
    Bulk& kept = bulks_[id] = std::move(bulk);
    transport_.StartBulkReceive(rank, header->tag, kept.discarded, id);
    return;
  }
  bulk.slot = route->reserved_slots.back();
  route->reserved_slots.pop_back();
  ++route->slots_outside;
  bulk.channel = route->channel;
  bulk.incoming = std::make_shared<IncomingChunk>();
  bulk.incoming->header = frame.header;
  bulk.incoming->chunk = {header->transfer, header->offset, header->bytes, bulk.slot};
  route->incoming.push_back(bulk.incoming);
  std::byte* const memory = bulk.channel->OutgoingSlot(bulk.slot);
  bulks_[id] = std::move(bulk);
  transport_.StartBulkReceive(rank, header->tag, {memory, header->bytes}, id);
}

bool Relay::FinishBulk() {
  finished_.clear();
  transport_.FinishedBulk(finished_);
  for (const std::uint64_t id : finished_) {
    const auto found = bulks_.find(id);
    if (found == bulks_.end()) continue;
    Bulk& bulk = found->second;
    if (bulk.sending) {
      Peer& peer = peers_[bulk.rank];
      --peer.bulk_sends;
      peer.slow = std::chrono::steady_clock::now() - bulk.started > kSlowSend;
      // The route may have been closed, and one with the same key opened, meanwhile.
      if (Route* route = Find(bulk.route); route != nullptr && route->channel == bulk.channel)
        FinishSend(*route, bulk.slot);
      else
        bulk.channel->ReleaseSlot(bulk.slot);
    } else if (bulk.incoming) {
      bulk.incoming->complete = true;
    }
    bulks_.erase(found);
  }
  return !finished_.empty();
}

void Relay::FinishSend(Route& route, std::uint32_t slot) {
  route.busy_slots &= ~(std::uint64_t{1} << slot);
  if (route.channel->layout().staging_slots == 1 && route.chunk_credit == 0)
    route.held_slot = slot;
  else
    route.channel->ReleaseSlot(slot);
}

// Posts what waits for its channel: first frames, then the chunks that are complete.
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
  while (!route.incoming.empty() && route.incoming.front()->complete) {
    const IncomingChunk& incoming = *route.incoming.front();
    std::byte payload[64];
    const std::size_t bytes = EncodedSize(incoming.chunk);
    EncodeInto(std::span(payload, bytes), incoming.chunk);
    FrameHeader header = incoming.header;
    header.op = static_cast<std::uint16_t>(Op::kChunk);
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    if (!PostToChannel(route, header, Bytes(payload, bytes))) {
      route.channel->WantRoom();
      return moved;
    }
    route.incoming.pop_front();
    moved = true;
  }
  return moved;
}

bool Relay::ReserveSlots(Route& route) {
  bool moved = false;
  while (route.slots_outside > route.incoming.size()) {
    const std::optional<std::uint32_t> slot = route.channel->TryTakeSlot();
    if (!slot) break;
    route.reserved_slots.push_back(*slot);
    --route.slots_outside;
    ++route.ungranted_slots;
    moved = true;
  }
  return moved;
}

void Relay::Grant(Route& route) {
  const std::uint32_t portion =
      std::max<std::uint32_t>(route.channel->layout().staging_slots / 4, 1);
  if (route.consumed < kGrantBytes && route.ungranted_slots < portion) return;
  SendControl(route.rank, RemoteCredit{route.key.session, route.key.device, route.consumed,
                                       route.ungranted_slots});
  route.consumed = 0;
  route.ungranted_slots = 0;
}

// --- To other agents.

bool Relay::Append(std::uint32_t rank, RouteKey route, const FrameHeader& header, Bytes payload) {
  if (peers_[rank].batch.Append(route, header, payload)) return true;
  return SendBatch(rank) && peers_[rank].batch.Append(route, header, payload);
}

template <typename T>
bool Relay::AppendMessage(std::uint32_t rank, const T& message, std::uint32_t request,
                          std::uint64_t sequence) {
  std::byte payload[128];
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(T::kOp);
  header.payload_bytes = static_cast<std::uint32_t>(EncodedSize(message));
  header.request = request;
  header.sequence = sequence;
  EncodeInto(std::span(payload, header.payload_bytes), message);
  return Append(rank, {}, header, Bytes(payload, header.payload_bytes));
}

// Control messages first; then what the batch holds is sent. True when something left.
bool Relay::SendBatch(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  bool sent = false;
  for (;;) {
    bool full = false;
    while (!peer.control.empty() && !full) {
      const std::vector<std::byte>& frame = peer.control.front();
      FrameHeader header;
      std::memcpy(&header, frame.data(), sizeof header);
      if (peer.batch.Append({}, header, Bytes(frame).subspan(sizeof header)))
        peer.control.pop_front();
      else
        full = true;
    }
    if (peer.batch.empty() || !transport_.TrySend(rank, peer.batch.bytes())) return sent;
    peer.batch.Clear();
    sent = true;
    if (!full) return sent;
  }
}

bool Relay::StartChunks(Route& route) {
  bool moved = false;
  Peer& peer = peers_[route.rank];
  const std::uint32_t most =
      peer.slow ? std::min(kSlowSendsInFlight, sends_in_flight_) : sends_in_flight_;
  while (!route.waiting_chunks.empty() && route.chunk_credit > 0 && peer.bulk_sends < most) {
    const auto& [header, chunk] = route.waiting_chunks.front();
    const std::uint32_t tag = peer.next_tag;
    const RemoteChunk announced{route.key.session, route.key.device, chunk.transfer,
                                chunk.offset,      chunk.bytes,      tag};
    if (!AppendMessage(route.rank, announced, header.request, header.sequence)) return moved;
    peer.next_tag = (tag + 1) % kTags;
    --route.chunk_credit;
    ++peer.bulk_sends;
    const std::uint64_t id = ++last_bulk_;
    Bulk& bulk = bulks_[id];
    bulk.sending = true;
    bulk.started = std::chrono::steady_clock::now();
    bulk.route = route.key;
    bulk.channel = route.channel;
    bulk.rank = route.rank;
    bulk.slot = chunk.slot;
    transport_.StartBulkSend(route.rank, tag,
                             {route.channel->IncomingSlot(chunk.slot), chunk.bytes}, id);
    route.waiting_chunks.pop_front();
    moved = true;
  }
  return moved;
}

// Takes frames from the channel as long as the other end and this pass have room for them.
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
  if (frame.op() == Op::kChunk) {
    const Result<Chunk> chunk = ParseMessage<Chunk>(frame);
    if (!chunk.ok()) {
      route.failure = chunk.status().message();
      return false;
    }
    if (route.channel->IncomingSlot(chunk->slot) == nullptr ||
        chunk->bytes > route.channel->layout().staging_bytes ||
        (route.busy_slots >> chunk->slot & 1) != 0) {
      route.failure =
          Format("a chunk of {} bytes in staging slot {}, which is not there or not free",
                 chunk->bytes, chunk->slot);
      return false;
    }
    route.busy_slots |= std::uint64_t{1} << chunk->slot;
    route.waiting_chunks.emplace_back(frame.header, *chunk);
    StartChunks(route);
    return true;
  }
  const std::size_t bytes = FrameBytes(frame.header);
  route.needed_credit = bytes;
  if (route.frame_credit < bytes || !Append(route.rank, route.key, frame.header, frame.payload))
    return false;
  route.needed_credit = 0;
  route.frame_credit -= bytes;
  CountCall(route, frame);
  return true;
}

}  // namespace cuspan
