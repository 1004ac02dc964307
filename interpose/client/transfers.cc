#include "interpose/client/transfers.h"

#include <algorithm>
#include <cstring>

#include "interpose/client/background_thread.h"

namespace cuspan {

Transfers::~Transfers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (sender_.joinable()) sender_.join();
}

std::uint64_t Transfers::BeginOutgoing() {
  std::lock_guard lock(mutex_);
  const std::uint64_t transfer = next_++;
  outgoing_.emplace(transfer, Outgoing{});
  return transfer;
}

void Transfers::Forget(std::uint64_t transfer) {
  std::lock_guard lock(mutex_);
  outgoing_.erase(transfer);
  incoming_.erase(transfer);
}

CUresult Transfers::Send(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                         const HostRows& rows) {
  {
    std::unique_lock lock(mutex_);
    // A transfer that is no longer known was refused by the proxy.
    changed_.wait(lock, [&] {
      const auto known = outgoing_.find(transfer);
      return failed_ != CUDA_SUCCESS || known == outgoing_.end() || known->second.wanted;
    });
    outgoing_.erase(transfer);
    if (failed_ != CUDA_SUCCESS) return failed_;
  }
  return SendChunks(transfer, source, bytes, rows);
}

CUresult Transfers::SendChunks(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                               const HostRows& rows) {
  const std::uint64_t chunk_bytes = channel_->layout().staging_bytes;
  for (std::uint64_t offset = 0; offset < bytes; offset += chunk_bytes) {
    const std::optional<std::uint32_t> slot = channel_->TakeSlot();
    if (!slot) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    const auto part = static_cast<std::uint32_t>(std::min(chunk_bytes, bytes - offset));
    PackRows(rows, source, offset, part, channel_->OutgoingSlot(*slot));
    Chunk chunk;
    chunk.transfer = transfer;
    chunk.offset = offset;
    chunk.bytes = part;
    chunk.slot = *slot;
    if (channel_->Post(chunk) == 0) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  channel_->statistics().bytes_to_device.fetch_add(bytes, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

void Transfers::SendLater(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                          const HostRows& rows, std::shared_ptr<Incoming> after) {
  {
    std::lock_guard lock(mutex_);
    const auto known = outgoing_.find(transfer);
    if (known == outgoing_.end()) return;  // Refused in the meantime.
    known->second.source = source;
    known->second.bytes = bytes;
    known->second.rows = rows;
    known->second.by_sender = true;
    known->second.after = std::move(after);
    if (!sender_.joinable())
      sender_ = StartBackgroundThread("cuspan-send", [this] { SenderLoop(); });
  }
  changed_.notify_all();
}

bool Transfers::ReadyToSend(const Outgoing& outgoing) const {
  return outgoing.by_sender && outgoing.wanted &&
         (outgoing.after == nullptr || outgoing.after->complete.load(std::memory_order_acquire));
}

void Transfers::SenderLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto ready = outgoing_.end();
    changed_.wait(lock, [&] {
      ready = std::find_if(outgoing_.begin(), outgoing_.end(),
                           [&](const auto& entry) { return ReadyToSend(entry.second); });
      return stopping_ || ready != outgoing_.end();
    });
    if (stopping_) return;
    const std::uint64_t transfer = ready->first;
    const Outgoing outgoing = std::move(ready->second);
    outgoing_.erase(ready);
    lock.unlock();
    if (outgoing.after != nullptr && outgoing.after->result != CUDA_SUCCESS) {
      TransferAbandon abandon;
      abandon.transfer = transfer;
      abandon.result = outgoing.after->result;
      channel_->Post(abandon);
    } else {
      // A failure here is the loss of the channel, which the receiver notices and tells.
      static_cast<void>(SendChunks(
          transfer, outgoing.after != nullptr ? outgoing.after->destination : outgoing.source,
          outgoing.bytes, outgoing.rows));
    }
    lock.lock();
  }
}

void Transfers::Retry() {
  // Taken so that a sender between its look at the condition and its sleep is not missed.
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

std::uint64_t Transfers::BeginIncoming(std::shared_ptr<Incoming> incoming) {
  std::lock_guard lock(mutex_);
  const std::uint64_t transfer = next_++;
  incoming_.emplace(transfer, std::move(incoming));
  return transfer;
}

CUresult Transfers::WaitComplete(const Incoming& incoming) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ != CUDA_SUCCESS || incoming.complete; });
  return incoming.complete ? incoming.result : failed_;
}

void Transfers::WaitStored(std::uint64_t chunks) {
  if (Stored(chunks)) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ != CUDA_SUCCESS || Stored(chunks); });
}

void Transfers::OnWanted(std::uint64_t transfer) {
  {
    std::lock_guard lock(mutex_);
    const auto known = outgoing_.find(transfer);
    if (known == outgoing_.end()) return;
    known->second.wanted = true;
  }
  changed_.notify_all();
}

bool Transfers::OnChunk(const Chunk& chunk) {
  std::shared_ptr<Incoming> incoming;
  {
    std::lock_guard lock(mutex_);
    const auto known = incoming_.find(chunk.transfer);
    if (known == incoming_.end()) return false;
    incoming = known->second;
  }
  const std::byte* slot = channel_->IncomingSlot(chunk.slot);
  if (slot == nullptr || chunk.bytes > channel_->layout().staging_bytes ||
      chunk.offset > incoming->bytes || chunk.bytes > incoming->bytes - chunk.offset)
    return false;
  UnpackRows(incoming->rows, incoming->destination, chunk.offset, chunk.bytes, slot);
  channel_->ReleaseSlot(chunk.slot);
  channel_->statistics().bytes_from_device.fetch_add(chunk.bytes, std::memory_order_relaxed);
  bool complete = false;
  {
    std::lock_guard lock(mutex_);
    incoming->stored += chunk.bytes;
    stored_chunks_.fetch_add(1, std::memory_order_release);
    if (incoming->stored == incoming->bytes) {
      incoming->complete.store(true, std::memory_order_release);
      incoming_.erase(chunk.transfer);
      complete = true;
    }
  }
  changed_.notify_all();
  if (complete && incoming->on_complete) incoming->on_complete();
  return true;
}

void Transfers::OnFailed(std::uint64_t transfer, CUresult result) {
  std::shared_ptr<Incoming> incoming;
  {
    std::lock_guard lock(mutex_);
    outgoing_.erase(transfer);
    if (const auto known = incoming_.find(transfer); known != incoming_.end()) {
      incoming = known->second;
      incoming->result = result;
      incoming->complete.store(true, std::memory_order_release);
      incoming_.erase(known);
    }
  }
  changed_.notify_all();
  if (incoming != nullptr && incoming->on_complete) incoming->on_complete();
}

void Transfers::FailAll(CUresult result) {
  std::unordered_map<std::uint64_t, std::shared_ptr<Incoming>> ended;
  {
    std::lock_guard lock(mutex_);
    failed_ = result;
    outgoing_.clear();
    ended.swap(incoming_);
    for (auto& [number, incoming] : ended) {
      incoming->result = result;
      incoming->complete.store(true, std::memory_order_release);
    }
  }
  changed_.notify_all();
  for (auto& [number, incoming] : ended)
    if (incoming->on_complete) incoming->on_complete();
}

}  // namespace cuspan
