#include "interpose/client/connection/outgoing_transfers.h"

#include <algorithm>

#include "common/trace.h"
#include "interpose/client/base/background_thread.h"
#include "protocol/wire/frame.h"

namespace cuspan {
namespace {

// Maximum size of a copy sent by its caller, if the caller need not wait for it.
constexpr std::uint64_t kQuicklySent = 256 * 1024;

}  // namespace

OutgoingTransfers::~OutgoingTransfers() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    may_send_.notify_all();
  }
  if (sender_.joinable()) sender_.join();
}

std::uint64_t OutgoingTransfers::Begin(const HostSpan& source) {
  const MutexLock lock(mutex_);
  last_number_ += 2;
  outgoing_[last_number_].span = source;
  return last_number_;
}

std::uint64_t OutgoingTransfers::NextNumber() {
  const MutexLock lock(mutex_);
  return last_number_ += 2;
}

void OutgoingTransfers::Forget(std::uint64_t transfer) {
  const MutexLock lock(mutex_);
  outgoing_.erase(transfer);
}

bool OutgoingTransfers::Uses(const HostSpan& span) {
  const MutexLock lock(mutex_);
  return std::any_of(outgoing_.begin(), outgoing_.end(),
                     [&](const auto& entry) { return entry.second.span.Meets(span); });
}

bool OutgoingTransfers::MaySend(std::uint64_t transfer) {
  const MutexLock lock(mutex_);
  return MaySendNow(transfer);
}

bool OutgoingTransfers::MaySendNow(std::uint64_t transfer) const {
  const auto known = outgoing_.find(transfer);
  return failed_ != CUDA_SUCCESS || known == outgoing_.end() || IsClearToSend(known->second);
}

CUresult OutgoingTransfers::Send(std::uint64_t transfer, const std::byte* source,
                                 std::uint64_t bytes, const HostRows& rows) {
  {
    MutexLock lock(mutex_);
    // Ends when the proxy requests or refuses the bytes, or with FailAll.
    may_send_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) { return MaySendNow(transfer); });
    if (failed_ != CUDA_SUCCESS) return failed_;
    // The proxy takes no bytes of a refused transfer; it has posted the reason.
    if (!outgoing_.contains(transfer)) return CUDA_SUCCESS;
  }
  const CUresult sent = SendChunks(*channel_, common_->copy_in,
                                   {transfer, source, bytes, rows, device_, {}}, 0, bytes);
  const MutexLock lock(mutex_);
  outgoing_.erase(transfer);  // Until now, its bytes were in use.
  // The device's fault is the better error, if it is known already.
  return sent != CUDA_SUCCESS && failed_ != CUDA_SUCCESS ? failed_ : sent;
}

CUresult OutgoingTransfers::StartSender() {
  const MutexLock lock(mutex_);
  if (!sender_.joinable()) sender_ = StartBackgroundThread("cuspan-send", [this] { SenderLoop(); });
  return sender_.joinable() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void OutgoingTransfers::SendLater(std::uint64_t transfer, const std::byte* source,
                                  std::uint64_t bytes, const HostRows& rows) {
  {
    const MutexLock lock(mutex_);
    const auto known = outgoing_.find(transfer);
    if (known == outgoing_.end()) return;  // Refused in the meantime.
    known->second.source = source;
    known->second.bytes = bytes;
    known->second.rows = rows;
    known->second.by_sender = true;
  }
  may_send_.notify_all();
}

bool OutgoingTransfers::SendPart(std::uint64_t transfer, Outgoing& outgoing) {
  const ChannelLayout& layout = channel_->layout();
  const std::uint64_t end =
      std::min(outgoing.bytes, outgoing.sent + std::uint64_t{channel_->MostChunkBytes()} *
                                                   std::max(layout.staging_slots / 2, 1U));
  const std::byte* const source = outgoing.refused ? nullptr : outgoing.source;
  // A failure here is the loss of the channel; the receiver detects and reports it.
  static_cast<void>(SendChunks(*channel_, common_->copy_in,
                               {transfer, source, outgoing.bytes, outgoing.rows, device_, {}},
                               outgoing.sent, end));
  outgoing.sent = end;
  return end == outgoing.bytes;
}

void OutgoingTransfers::SenderLoop() {
  MutexLock lock(mutex_);
  std::uint64_t last = 0;  // Transfer served last.
  for (;;) {
    auto ready = outgoing_.end();
    // Idle: ends with a transfer to send, or with this object.
    may_send_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) {
      const auto is_ready = [&](const auto& entry) CUSPAN_REQUIRES(mutex_) {
        return entry.second.by_sender && IsClearToSend(entry.second);
      };
      const auto next = outgoing_.upper_bound(last);
      ready = std::find_if(next, outgoing_.end(), is_ready);
      if (ready == outgoing_.end()) ready = std::find_if(outgoing_.begin(), next, is_ready);
      return stopping_ || (ready != outgoing_.end() && is_ready(*ready));
    });
    if (stopping_) return;
    last = ready->first;
    Outgoing outgoing = ready->second;
    lock.unlock();
    const bool all = SendPart(last, outgoing);
    lock.lock();
    // The proxy may have refused the rest meanwhile.
    const auto known = outgoing_.find(last);
    if (known == outgoing_.end()) continue;
    if (all)
      outgoing_.erase(known);
    else
      known->second.sent = outgoing.sent;
  }
}

std::optional<std::uint64_t> OutgoingTransfers::BeginEarly(const HostSpan& source,
                                                           std::uint64_t bytes) {
  if (bytes > kMaxEarlyBytes) return {};
  const MutexLock lock(mutex_);
  if (failed_ != CUDA_SUCCESS || bytes > kMaxEarlyInAll - early_bytes_) return {};
  last_number_ += 2;
  early_.emplace(last_number_, bytes);
  early_bytes_ += bytes;
  Outgoing& outgoing = outgoing_[last_number_];
  outgoing.span = source;
  outgoing.early = true;
  return last_number_;
}

CUresult OutgoingTransfers::SendEarly(std::uint64_t transfer, const std::byte* source,
                                      std::uint64_t bytes, const HostRows& rows, bool later) {
  const OutgoingBytes all{transfer, source, bytes, rows, device_, {}};
  std::optional<CUresult> sent;
  if (later) {
    if (bytes <= kQuicklySent) sent = SendInFreeSlot(all);
    if (!sent && StartSender() == CUDA_SUCCESS) {
      {
        const MutexLock lock(mutex_);
        const auto known = outgoing_.find(transfer);
        if (known == outgoing_.end()) return failed_;
        known->second.source = source;
        known->second.bytes = bytes;
        known->second.rows = rows;
        known->second.clear_to_send = 0;
        known->second.by_sender = true;
      }
      may_send_.notify_all();
      return CUDA_SUCCESS;
    }
  }
  if (!sent) sent = SendChunks(*channel_, common_->copy_in, all, 0, bytes);
  const MutexLock lock(mutex_);
  outgoing_.erase(transfer);  // Until now, its bytes were in use.
  // The device's fault is the better error, if it is known already.
  return *sent != CUDA_SUCCESS && failed_ != CUDA_SUCCESS ? failed_ : *sent;
}

std::optional<CUresult> OutgoingTransfers::SendInFreeSlot(const OutgoingBytes& bytes) {
  if (bytes.bytes > channel_->MostChunkBytes()) return {};
  const std::optional<std::uint32_t> slot = channel_->TryAcquireSlot();
  if (!slot) return {};
  const TraceSpan span;
  PackRows(bytes.rows, bytes.source, 0, bytes.bytes, channel_->OutgoingSlot(*slot));
  span.Done(TraceKind::kIntoStaging, device_, bytes.transfer, 0, bytes.bytes);
  const Chunk chunk{bytes.transfer, 0, static_cast<std::uint32_t>(bytes.bytes), *slot};
  if (channel_->Post(chunk) == 0) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  channel_->statistics().bytes_to_device.fetch_add(bytes.bytes, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

void OutgoingTransfers::ForgetEarly(std::uint64_t transfer) {
  const MutexLock lock(mutex_);
  EndEarly(transfer);
  outgoing_.erase(transfer);
}

bool OutgoingTransfers::EndEarly(std::uint64_t transfer) {
  const auto known = early_.find(transfer);
  if (known == early_.end()) return false;
  early_bytes_ -= known->second;
  early_.erase(known);
  return true;
}

void OutgoingTransfers::OnClearToSend(std::uint64_t transfer, std::uint64_t chunks) {
  {
    const MutexLock lock(mutex_);
    if (EndEarly(transfer)) return;
    const auto known = outgoing_.find(transfer);
    if (known == outgoing_.end()) return;
    known->second.clear_to_send = chunks;
    if (!IsClearToSend(known->second)) awaits_stored_.insert(chunks);
  }
  may_send_.notify_all();
}

void OutgoingTransfers::OnStored(std::uint64_t chunks) {
  const MutexLock lock(mutex_);
  stored_chunks_ = std::max(stored_chunks_, chunks);
  if (awaits_stored_.empty() || *awaits_stored_.begin() > chunks) return;
  awaits_stored_.erase(awaits_stored_.begin(), awaits_stored_.upper_bound(chunks));
  may_send_.notify_all();
}

void OutgoingTransfers::OnFailed(std::uint64_t transfer) {
  const MutexLock lock(mutex_);
  EndEarly(transfer);
  const auto known = outgoing_.find(transfer);
  if (known == outgoing_.end()) return;
  if (known->second.early) {
    known->second.refused = true;
    known->second.span = {};  // The program may free its bytes.
    return;
  }
  outgoing_.erase(known);
  may_send_.notify_all();
}

void OutgoingTransfers::FailAll(CUresult result) {
  const MutexLock lock(mutex_);
  failed_ = result;
  outgoing_.clear();
  may_send_.notify_all();
}

}  // namespace cuspan
