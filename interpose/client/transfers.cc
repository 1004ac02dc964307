#include "interpose/client/transfers.h"

#include <algorithm>

#include "common/trace.h"
#include "interpose/client/background_thread.h"
#include "interpose/client/copy_threads.h"
#include "interpose/client/outgoing_chunks.h"

namespace cuspan {
namespace {

// Smaller chunks are stored sooner than another thread wakes up.
constexpr std::uint32_t kLeastForOthers = 64 * 1024;

// So many failed transfers are remembered: far more than have chunks under way at once, each of
// which holds one of at most 64 slots.
constexpr std::size_t kFailedRemembered = 1024;

}  // namespace

Transfers::~Transfers() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    may_send_.notify_all();
    // What is being stored uses this and the channel.
    received_.wait(lock, [this] { return storing_ == 0; });
  }
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
  receiving_.fetch_sub(static_cast<int>(incoming_.erase(transfer)));
}

bool Transfers::MaySend(std::uint64_t transfer) {
  std::lock_guard lock(mutex_);
  const auto known = outgoing_.find(transfer);
  return failed_ != CUDA_SUCCESS || known == outgoing_.end() || Wanted(known->second);
}

CUresult Transfers::Send(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                         const HostRows& rows) {
  {
    std::unique_lock lock(mutex_);
    // A transfer that is no longer known was refused by the proxy.
    may_send_.wait(lock, [&] {
      const auto known = outgoing_.find(transfer);
      return failed_ != CUDA_SUCCESS || known == outgoing_.end() || Wanted(known->second);
    });
    outgoing_.erase(transfer);
    if (failed_ != CUDA_SUCCESS) return failed_;
  }
  return SendChunks(*channel_, {transfer, source, bytes, rows, device_}, 0, bytes);
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
  may_send_.notify_all();
}

bool Transfers::ReadyToSend(const Outgoing& outgoing) const {
  return outgoing.by_sender && Wanted(outgoing) &&
         (outgoing.after == nullptr || outgoing.after->complete.load(std::memory_order_acquire));
}

bool Transfers::SendPart(std::uint64_t transfer, Outgoing& outgoing) {
  if (outgoing.after != nullptr) {
    if (outgoing.after->result != CUDA_SUCCESS) {
      TransferAbandon abandon;
      abandon.transfer = transfer;
      abandon.result = outgoing.after->result;
      channel_->Post(abandon);
      return true;
    }
    outgoing.source = outgoing.after->destination;
  }
  const ChannelLayout& layout = channel_->layout();
  const std::uint64_t end =
      std::min(outgoing.bytes, outgoing.sent + std::uint64_t{channel_->ChunkBytes()} *
                                                   std::max(layout.staging_slots / 2, 1U));
  // A failure here is the loss of the channel, which the receiver notices and tells.
  static_cast<void>(SendChunks(*channel_,
                               {transfer, outgoing.source, outgoing.bytes, outgoing.rows, device_},
                               outgoing.sent, end));
  outgoing.sent = end;
  return end == outgoing.bytes;
}

void Transfers::SenderLoop() {
  std::unique_lock lock(mutex_);
  std::uint64_t last = 0;  // The one that had its turn.
  for (;;) {
    auto ready = outgoing_.end();
    may_send_.wait(lock, [&] {
      const auto is_ready = [&](const auto& entry) { return ReadyToSend(entry.second); };
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

void Transfers::Retry() {
  // Taken so that a sender between its look at the condition and its sleep is not missed.
  { std::lock_guard lock(mutex_); }
  may_send_.notify_all();
}

std::uint64_t Transfers::BeginIncoming(std::shared_ptr<Incoming> incoming) {
  std::lock_guard lock(mutex_);
  const std::uint64_t transfer = next_++;
  incoming_.emplace(transfer, std::move(incoming));
  receiving_.fetch_add(1);
  return transfer;
}

CUresult Transfers::WaitComplete(const Incoming& incoming) {
  // It becomes so when the device is lost, too, and not while its memory is written to.
  std::unique_lock lock(mutex_);
  received_.wait(lock, [&] { return incoming.complete.load(std::memory_order_relaxed); });
  return incoming.result;
}

void Transfers::WaitStored(std::uint64_t chunks) {
  if (Stored(chunks)) return;
  std::unique_lock lock(mutex_);
  const auto awaited = stored_awaited_.insert(chunks);
  received_.wait(lock, [&] { return failed_ != CUDA_SUCCESS || Stored(chunks); });
  stored_awaited_.erase(awaited);
}

void Transfers::OnWanted(std::uint64_t transfer, std::uint64_t chunks) {
  {
    std::lock_guard lock(mutex_);
    const auto known = outgoing_.find(transfer);
    if (known == outgoing_.end()) return;
    known->second.wanted = chunks;
  }
  may_send_.notify_all();
}

bool Transfers::OnChunk(const Chunk& chunk) {
  std::shared_ptr<Incoming> incoming;
  {
    std::lock_guard lock(mutex_);
    // So many slots there are, and no chunk without one.
    if (channel_->IncomingSlot(chunk.slot) == nullptr || storing_ >= 64) return false;
    const auto known = incoming_.find(chunk.transfer);
    if (known == incoming_.end()) {
      if (failed_ == CUDA_SUCCESS && !failed_incoming_.contains(chunk.transfer)) return false;
      Done(chunk, arrived_chunks_++);
      return true;
    }
    incoming = known->second;
    if (chunk.bytes > channel_->layout().staging_bytes || chunk.offset > incoming->bytes ||
        chunk.bytes > incoming->bytes - chunk.offset)
      return false;
    ++incoming->storing;
    ++storing_;
  }
  const std::uint64_t arrival = arrived_chunks_++;
  CopyThreads& threads = CopyThreads::Get();
  if (threads.count() == 1 || chunk.bytes < kLeastForOthers)
    Store(incoming, chunk, arrival);
  else
    threads.Run([this, incoming, chunk, arrival] { Store(incoming, chunk, arrival); });
  return true;
}

void Transfers::Store(const std::shared_ptr<Incoming>& incoming, const Chunk& chunk,
                      std::uint64_t arrival) {
  const TraceSpan span;
  UnpackRows(incoming->rows, incoming->destination, chunk.offset, chunk.bytes,
             channel_->IncomingSlot(chunk.slot));
  span.Done(TraceKind::kOutOfStaging, device_, chunk.transfer, chunk.offset, chunk.bytes);
  channel_->statistics().bytes_from_device.fetch_add(chunk.bytes, std::memory_order_relaxed);
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    --incoming->storing;
    --storing_;
    incoming->stored += chunk.bytes;
    if (incoming->stored == incoming->bytes) {
      receiving_.fetch_sub(static_cast<int>(incoming_.erase(chunk.transfer)));
      incoming->ended = true;
    }
    Complete(incoming, ended);
    // With the mutex: nobody destroys this meanwhile.
    Done(chunk, arrival);
  }
  TellEnded(ended);
}

void Transfers::Done(const Chunk& chunk, std::uint64_t arrival) {
  const std::uint64_t before = stored_chunks_.load(std::memory_order_relaxed);
  std::uint64_t stored = before;
  stored_later_.insert(arrival);
  while (!stored_later_.empty() && *stored_later_.begin() == stored) {
    stored_later_.erase(stored_later_.begin());
    ++stored;
  }
  stored_chunks_.store(stored, std::memory_order_release);
  channel_->ReleaseSlot(chunk.slot);
  channel_->own_bell().Ring();
  // Only who has something to do then: hundreds of chunks a second come, and to wake a thread takes
  // as long as to copy some of them.
  const auto awaits = [&](std::uint64_t chunks) { return chunks > before && chunks <= stored; };
  if (stopping_ || std::any_of(stored_awaited_.begin(), stored_awaited_.end(), awaits))
    received_.notify_all();
  if (std::any_of(outgoing_.begin(), outgoing_.end(), [&](const auto& entry) {
        return entry.second.wanted && awaits(*entry.second.wanted);
      }))
    may_send_.notify_all();
}

void Transfers::EndIncoming(const std::shared_ptr<Incoming>& incoming, CUresult result,
                            Ended& ended) {
  incoming->result = result;
  incoming->ended = true;
  Complete(incoming, ended);
}

void Transfers::Complete(const std::shared_ptr<Incoming>& incoming, Ended& ended) {
  if (!incoming->ended || incoming->storing != 0) return;
  incoming->complete.store(true, std::memory_order_release);
  ended.push_back(incoming);
  received_.notify_all();
}

void Transfers::TellEnded(const Ended& ended) {
  for (const std::shared_ptr<Incoming>& incoming : ended)
    if (incoming->on_complete) incoming->on_complete();
}

void Transfers::OnFailed(std::uint64_t transfer, CUresult result) {
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    outgoing_.erase(transfer);
    if (const auto known = incoming_.find(transfer); known != incoming_.end()) {
      EndIncoming(known->second, result, ended);
      incoming_.erase(known);
      receiving_.fetch_sub(1);
      failed_incoming_.insert(transfer);
      if (failed_incoming_.size() > kFailedRemembered)
        failed_incoming_.erase(failed_incoming_.begin());
    }
    may_send_.notify_all();
  }
  TellEnded(ended);
}

void Transfers::FailAll(CUresult result) {
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    failed_ = result;
    outgoing_.clear();
    for (const auto& [number, incoming] : incoming_) EndIncoming(incoming, result, ended);
    receiving_.fetch_sub(static_cast<int>(incoming_.size()));
    incoming_.clear();
    may_send_.notify_all();
    received_.notify_all();
  }
  TellEnded(ended);
}

}  // namespace cuspan
