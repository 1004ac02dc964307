#include "proxy/bulk/peer_copies.h"

#include <algorithm>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

constexpr int kMaxFramesAtOnce = 64;
// Limit for messages about copies never announced; only a broken client causes them.
constexpr std::size_t kMaxEarly = 1 << 16;

// Result to report if the other end of a copy failed. The other device's fault does not affect this
// device.
CUresult FailureElsewhere(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE ? result : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

}  // namespace

void PeerCopies::Add(std::uint32_t join, std::shared_ptr<Channel> channel) {
  {
    const MutexLock lock(inbox_->mutex);
    inbox_->joined.emplace_back(join, std::move(channel));
    inbox_->any.store(true, std::memory_order_release);
  }
  client_.own_bell().Ring();
}

void PeerCopies::ReceiveInbox() {
  if (!inbox_->any.load(std::memory_order_acquire)) return;
  std::vector<std::shared_ptr<PeerCopy>> reached;
  {
    const MutexLock lock(inbox_->mutex);
    for (auto& [join, channel] : inbox_->joined) peers_[join].channel = std::move(channel);
    inbox_->joined.clear();
    reached.swap(inbox_->reached);
    inbox_->any.store(false, std::memory_order_relaxed);
  }
  for (const std::shared_ptr<PeerCopy>& copy : reached) Reached(copy);
}

PeerCopies::Early& PeerCopies::EarlyOf(Peer& peer, std::uint64_t id) {
  if (peer.early.size() >= kMaxEarly) peer.early.erase(peer.early.begin());
  return peer.early[id];
}

Status PeerCopies::Announce(const std::shared_ptr<PeerCopy>& copy) {
  ReceiveInbox();
  const auto found = peers_.find(copy->join);
  if (found == peers_.end())
    return Status::Invalid("a copy over the unknown connection {}", copy->join);
  Peer& peer = found->second;
  if (!peer.copies.emplace(copy->id, copy).second)
    return Status::Invalid("copy {} between devices is already under way", copy->id);
  CUresult failure = peer.channel == nullptr ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
  if (const auto early = peer.early.find(copy->id); early != peer.early.end()) {
    copy->wanted = early->second.wanted;
    if (failure == CUDA_SUCCESS) failure = early->second.failure;
    peer.early.erase(early);
  }
  if (failure == CUDA_SUCCESS) return Status::Ok();
  faults_.Posted(copy->origin, failure);
  End(peer, copy);
  return Status::Ok();
}

SubmitResult PeerCopies::Begin(const std::shared_ptr<PeerCopy>& copy) {
  if (copy->ended) return SubmitResult::kSubmitted;
  PooledEvent event;
  if (const CUresult result = faults_.Check(events_.Record(copy->stream->driver, event));
      result != CUDA_SUCCESS) {
    Fail(copy, result);
    return SubmitResult::kSubmitted;
  }
  copy->holds = true;
  completer_.Add(
      copy->stream->progress, std::move(event), copy->stream->submitted,
      [inbox = inbox_, copy, &bell = client_.own_bell()](CUresult result, std::uint64_t) {
        if (result != CUDA_SUCCESS) return;  // Drop() ends it: the device is lost.
        {
          const MutexLock lock(inbox->mutex);
          inbox->reached.push_back(copy);
          inbox->any.store(true, std::memory_order_release);
        }
        bell.Ring();
      });
  return SubmitResult::kHeld;
}

void PeerCopies::Reached(const std::shared_ptr<PeerCopy>& copy) {
  if (copy->ended) return;
  copy->reached = true;
  Peer& peer = peers_[copy->join];
  if (copy->sends) return SendIfReady(peer, copy);
  copy->wanted = true;
  peer.channel->Post(PeerClearToSend{copy->id});
}

void PeerCopies::SendIfReady(Peer& peer, const std::shared_ptr<PeerCopy>& copy) {
  if (copy->reached && copy->wanted) peer.sending.Add(copy);
}

void PeerCopies::Release(PeerCopy& copy) {
  if (std::exchange(copy.holds, false)) queues_.Release(*copy.stream->queue);
}

void PeerCopies::End(Peer& peer, const std::shared_ptr<PeerCopy>& copy) {
  if (std::exchange(copy->ended, true)) return;
  peer.copies.erase(copy->id);
  peer.sending.Remove(copy);
  Release(*copy);
}

void PeerCopies::Fail(const std::shared_ptr<PeerCopy>& copy, CUresult result) {
  if (copy->ended) return;
  Peer& peer = peers_[copy->join];
  faults_.Posted(copy->origin, result);
  if (peer.channel != nullptr) peer.channel->Post(PeerEnd{copy->id, result});
  End(peer, copy);
}

void PeerCopies::Abandon(std::uint32_t join, std::uint64_t id) {
  ReceiveInbox();
  const auto peer = peers_.find(join);
  if (peer == peers_.end()) return;
  if (const auto found = peer->second.copies.find(id); found != peer->second.copies.end())
    Fail(std::shared_ptr(found->second), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

void PeerCopies::Drop(const std::shared_ptr<PeerCopy>& copy) {
  copy->holds = false;  // Already removed from the queues.
  Fail(copy, faults_.lost());
}

bool PeerCopies::HasWork() {
  if (inbox_->any.load(std::memory_order_acquire)) return true;
  return std::any_of(
      peers_.begin(), peers_.end(), [](auto& entry) CUSPAN_REQUIRES(receiving_thread) {
        Peer& peer = entry.second;
        return peer.channel != nullptr && (peer.channel->HasFrame() || peer.channel->closed() ||
                                           peer.sending.MayGoOn(*peer.channel));
      });
}

void PeerCopies::Progress() {
  ReceiveInbox();
  for (auto& [join, peer] : peers_) {
    if (peer.channel == nullptr) continue;
    if (!ReceiveFrames(peer)) continue;
    SendPieces(peer);
    // Frames sent before the end are handled first.
    if (peer.channel->closed() && !peer.channel->HasFrame()) Lose(peer);
  }
}

bool PeerCopies::ReceiveFrames(Peer& peer) {
  for (int i = 0; i < kMaxFramesAtOnce; ++i) {
    const Result<std::optional<Frame>> frame = peer.channel->Peek();
    if (frame.ok() && !frame->has_value()) return true;
    if (!frame.ok() || !ReceiveFrame(peer, **frame)) {
      LogError("invalid message from another device's proxy: {}",
               frame.ok() ? OpName((*frame)->op()) : frame.status().message());
      peer.channel->Close(true);
      Lose(peer);
      return false;
    }
    peer.channel->Pop();
  }
  return true;
}

void PeerCopies::Lose(Peer& peer) {
  // Completions still pending keep the channel's memory (shared_ptr).
  peer.channel = nullptr;
  peer.sending.Clear();
  peer.early.clear();
  std::vector<std::shared_ptr<PeerCopy>> lost;
  for (const auto& [id, copy] : peer.copies) lost.push_back(copy);
  for (const std::shared_ptr<PeerCopy>& copy : lost) {
    // No failure if all bytes were sent and no stream waits for the missing PeerEnd.
    if (!copy->sends || copy->until_end || copy->submitted < copy->bytes)
      faults_.Posted(copy->origin, CUDA_ERROR_DEVICE_UNAVAILABLE);
    End(peer, copy);
  }
}

bool PeerCopies::ReceiveFrame(Peer& peer, const Frame& frame) {
  if (frame.header.is_reply()) return false;
  switch (frame.op()) {
    case Op::kPeerClearToSend: {
      PeerClearToSend wanted;
      return DecodeFrom(frame.payload, wanted) && ReceiveClearToSend(peer, wanted.transfer);
    }
    case Op::kPeerEnd: {
      PeerEnd end;
      return DecodeFrom(frame.payload, end) &&
             ReceiveEnd(peer, end.transfer, static_cast<CUresult>(end.result));
    }
    case Op::kChunk: {
      Chunk chunk;
      return DecodeFrom(frame.payload, chunk) && ReceiveChunk(peer, chunk);
    }
    default:
      return false;
  }
}

bool PeerCopies::ReceiveClearToSend(Peer& peer, std::uint64_t id) {
  const auto found = peer.copies.find(id);
  if (found == peer.copies.end()) {
    EarlyOf(peer, id).wanted = true;
    return true;
  }
  const std::shared_ptr<PeerCopy> copy = found->second;
  if (!copy->sends || copy->wanted) return false;
  copy->wanted = true;
  SendIfReady(peer, copy);
  return true;
}

bool PeerCopies::ReceiveEnd(Peer& peer, std::uint64_t id, CUresult result) {
  const auto found = peer.copies.find(id);
  if (found == peer.copies.end()) {
    if (result != CUDA_SUCCESS) EarlyOf(peer, id).failure = FailureElsewhere(result);
    return true;
  }
  const std::shared_ptr<PeerCopy> copy = found->second;
  if (result == CUDA_SUCCESS && (!copy->sends || copy->submitted < copy->bytes)) return false;
  if (result != CUDA_SUCCESS) faults_.Posted(copy->origin, FailureElsewhere(result));
  End(peer, copy);
  return true;
}

// --- The receiver.

bool PeerCopies::ReceiveChunk(Peer& peer, const Chunk& chunk) {
  Channel& channel = *peer.channel;
  const std::byte* bytes = channel.IncomingSlot(chunk.slot);
  if (bytes == nullptr || chunk.bytes == 0 || chunk.bytes > channel.layout().staging_bytes)
    return false;
  const auto found = peer.copies.find(chunk.transfer);
  // If the copy failed here, its chunks are still in flight.
  if (found == peer.copies.end() || faults_.lost() != CUDA_SUCCESS) {
    channel.ReleaseSlot(chunk.slot);
    return true;
  }
  const std::shared_ptr<PeerCopy> copy = found->second;
  if (copy->sends || !copy->wanted || chunk.offset != copy->submitted ||
      chunk.bytes > copy->bytes - copy->submitted)
    return false;
  const bool last = copy->submitted + chunk.bytes == copy->bytes;
  const Answer done = [channel = peer.channel, slot = chunk.slot, id = copy->id, last](
                          CUresult result, std::uint64_t) {
    channel->ReleaseSlot(slot);
    if (last) channel->Post(PeerEnd{id, result});
  };
  const CUresult result =
      staged_.ToDevice(copy->box, {copy->id, chunk.offset, chunk.bytes, TraceKind::kPeerReceive},
                       bytes, *copy->stream, done);
  if (result != CUDA_SUCCESS) {
    channel.ReleaseSlot(chunk.slot);
    Fail(copy, result);
    return true;
  }
  copy->submitted += chunk.bytes;
  if (last) End(peer, copy);
  return true;
}

// --- The sender.

void PeerCopies::SendPieces(Peer& peer) {
  peer.sending.GoOn(*peer.channel, [&](const std::shared_ptr<PeerCopy>& copy, std::uint32_t slot) {
    receiving_thread.AssertHeld();
    if (const CUresult result = SendPiece(peer, *copy, slot); result != CUDA_SUCCESS) {
      peer.channel->ReturnSlot(slot);
      Fail(copy, result);
      return false;
    }
    if (copy->submitted < copy->bytes) return true;
    if (!copy->until_end) Release(*copy);
    return false;
  });
}

CUresult PeerCopies::SendPiece(Peer& peer, PeerCopy& copy, std::uint32_t slot) {
  Chunk chunk;
  chunk.transfer = copy.id;
  chunk.offset = copy.submitted;
  chunk.bytes = peer.channel->ChunkBytes(copy.submitted, copy.bytes);
  chunk.slot = slot;
  const Answer done = [channel = peer.channel, chunk](CUresult result, std::uint64_t) {
    // Without this, the other end would wait for the missing chunk.
    if (result != CUDA_SUCCESS) channel->Post(PeerEnd{chunk.transfer, result});
    if (result != CUDA_SUCCESS || channel->Post(chunk) == 0) channel->ReturnSlot(chunk.slot);
  };
  const CUresult result =
      staged_.FromDevice(copy.box, {copy.id, chunk.offset, chunk.bytes, TraceKind::kPeerSend},
                         peer.channel->OutgoingSlot(slot), *copy.stream, done);
  if (result == CUDA_SUCCESS) copy.submitted += chunk.bytes;
  return result;
}

}  // namespace cuspan::proxy
