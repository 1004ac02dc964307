#include "interpose/client/connection/transfers.h"

#include <algorithm>
#include <utility>

#include "common/trace.h"

namespace cuspan {
namespace {

// Minimum size for other threads: smaller chunks are stored before another thread wakes up.
constexpr std::uint32_t kMinForOthers = 64 * 1024;

// Failed transfers remembered: far more than can have chunks in flight, since each chunk holds one
// of at most 64 slots.
constexpr std::size_t kFailedRemembered = 1024;

// Maximum number of early inline chunks. A proxy sends them only while no other chunk has a slot,
// except for outcomes of file copies, one at a time for each stream: they overtake only chunks in
// flight.
constexpr std::size_t kMaxEarly = 65536;

}  // namespace

std::uint64_t ChunkArrivals::Next() {
  while (after_gap_.erase(without_gaps_) != 0) ++without_gaps_;
  return without_gaps_++;
}

bool ChunkArrivals::Take(std::uint64_t number) {
  if (number < without_gaps_ || after_gap_.size() >= kMaxEarly || !after_gap_.insert(number).second)
    return false;
  while (after_gap_.erase(without_gaps_) != 0) ++without_gaps_;
  return true;
}

Transfers::~Transfers() {
  MutexLock lock(mutex_);
  stopping_ = true;
  // Running copies use this object and the channel. The wait is bounded: they run in this process.
  received_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return storing_.empty(); });
}

bool Transfers::Forget(std::uint64_t transfer) {
  const MutexLock lock(mutex_);
  const std::size_t removed = incoming_.erase(transfer);
  common_->receiving.fetch_sub(static_cast<int>(removed));
  return removed != 0;
}

bool Transfers::Uses(const HostSpan& span) {
  const MutexLock lock(mutex_);
  return outgoing_.Uses(span) ||
         std::any_of(incoming_.begin(), incoming_.end(), [&](const auto& entry) {
           const Incoming& incoming = *entry.second;
           return incoming.SpanAt(0, incoming.bytes).Meets(span);
         });
}

std::uint64_t Transfers::BeginIncoming(std::shared_ptr<Incoming> incoming) {
  const MutexLock lock(mutex_);
  const std::uint64_t transfer = std::exchange(next_, next_ + 2);
  incoming_.emplace(transfer, std::move(incoming));
  common_->receiving.fetch_add(1);
  return transfer;
}

CUresult Transfers::WaitComplete(const Incoming& incoming) {
  // Loss of the device completes it, too, but not while its memory is being written.
  MutexLock lock(mutex_);
  received_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) {
    return incoming.complete.load(std::memory_order_relaxed);
  });
  return incoming.result;
}

void Transfers::WaitStored(std::uint64_t chunks) {
  if (Stored(chunks)) return;
  MutexLock lock(mutex_);
  const auto awaited = stored_awaited_.insert(chunks);
  // Ends when they are stored, or with FailAll.
  received_.wait(
      lock, [&]() CUSPAN_REQUIRES(mutex_) { return failed_ != CUDA_SUCCESS || Stored(chunks); });
  stored_awaited_.erase(awaited);
}

bool Transfers::Begin(const Piece& piece, bool later, std::shared_ptr<Incoming>* incoming) {
  const auto known = incoming_.find(piece.transfer);
  if (known == incoming_.end())
    return failed_ != CUDA_SUCCESS || failed_incoming_.contains(piece.transfer);
  const std::uint64_t bytes = known->second->bytes;
  if (piece.offset > bytes || piece.bytes.size() > bytes - piece.offset) return false;
  // A sink takes them without waiting: not more than it asked for.
  if (known->second->sink != nullptr && piece.bytes.size() > bytes - known->second->sunk)
    return false;
  if (later) return true;
  *incoming = known->second;
  ++(*incoming)->storing;
  if ((*incoming)->sink == nullptr)
    storing_.push_back({piece.transfer, (*incoming)->SpanAt(piece.offset, piece.bytes.size())});
  return true;
}

bool Transfers::MeetsOthers(const Piece& piece) const {
  const auto known = incoming_.find(piece.transfer);
  if (storing_.empty() || known == incoming_.end()) return false;
  const Incoming& incoming = *known->second;
  const HostSpan span = incoming.SpanAt(piece.offset, piece.bytes.size());
  return std::any_of(storing_.begin(), storing_.end(), [&](const Destination& place) {
    return place.transfer != piece.transfer && place.span.Meets(span);
  });
}

bool Transfers::OnChunk(const Chunk& chunk) {
  const std::byte* const slot = channel_->IncomingSlot(chunk.slot);
  if (slot == nullptr || chunk.bytes > channel_->layout().staging_bytes) return false;
  Piece piece{arrived_.Next(), chunk.transfer, chunk.offset, {slot, chunk.bytes}, chunk.slot, {}};
  std::shared_ptr<Incoming> incoming;
  {
    const MutexLock lock(mutex_);
    // 64: number of slots. Chunks without a slot are stored one at a time.
    if (storing_.size() > 64) return false;
    // Earlier kept chunks may write to the same location.
    const bool later = storing_kept_ || (!kept_.empty() && kept_.begin()->first < piece.number) ||
                       MeetsOthers(piece);
    if (!Begin(piece, later, &incoming)) return false;
    if (later) {
      kept_.emplace(piece.number, std::move(piece));
      return true;
    }
    if (incoming != nullptr && incoming->sink != nullptr) {
      Sink(incoming, std::move(piece));
      if (!PopKept(&incoming, &piece)) return true;
    }
  }
  CopyThreads& threads = common_->copy_out;
  if (incoming == nullptr)
    Skip(piece);
  else if (threads.count() == 1 || piece.bytes.size() < kMinForOthers)
    Store(std::move(incoming), std::move(piece));
  else
    threads.Run([this, incoming, piece] { Store(incoming, piece); });
  return true;
}

void Transfers::Sink(const std::shared_ptr<Incoming>& incoming, Piece piece) {
  incoming->sunk += piece.bytes.size();
  Piece counted;
  counted.number = piece.number;
  incoming->sink->Run([this, incoming, piece = std::move(piece)] { FillSink(*incoming, piece); });
  Done(counted);
}

void Transfers::FillSink(Incoming& incoming, const Piece& piece) {
  incoming.sink->Store(piece.offset, piece.bytes);
  channel_->statistics().bytes_from_device.fetch_add(piece.bytes.size(), std::memory_order_relaxed);
  if (piece.slot) channel_->ReleaseSlot(*piece.slot);
  const MutexLock lock(mutex_);
  CountStored(incoming, piece);
}

void Transfers::CountStored(Incoming& incoming, const Piece& piece) {
  --incoming.storing;
  incoming.stored += piece.bytes.size();
  int ended = 0;
  if (incoming.stored == incoming.bytes) {
    ended = static_cast<int>(incoming_.erase(piece.transfer));
    incoming.ended = true;
  }
  Complete(incoming);
  // Others do not look at a transfer's memory any more when this is 0.
  common_->receiving.fetch_sub(ended);
}

bool Transfers::OnChunkInline(const ChunkInline& chunk) {
  if (!arrived_.Take(chunk.number)) return false;
  Piece piece{chunk.number, chunk.transfer, chunk.offset, chunk.data, {}, {}};
  std::shared_ptr<Incoming> incoming;
  {
    const MutexLock lock(mutex_);
    const bool later = stored_chunks_.load(std::memory_order_relaxed) != chunk.number;
    if (!Begin(piece, later, &incoming)) return false;
    if (later || (incoming != nullptr && incoming->sink != nullptr)) {
      piece.kept =
          std::make_shared<const std::vector<std::byte>>(chunk.data.begin(), chunk.data.end());
      piece.bytes = *piece.kept;
    }
    if (later) {
      kept_.emplace(chunk.number, std::move(piece));
      return true;
    }
    if (incoming != nullptr && incoming->sink != nullptr) {
      Sink(incoming, std::move(piece));
      if (!PopKept(&incoming, &piece)) return true;
    }
  }
  if (incoming != nullptr)
    Store(std::move(incoming), std::move(piece));
  else
    Skip(piece);
  return true;
}

void Transfers::Store(std::shared_ptr<Incoming> incoming, Piece piece) {
  for (bool more = true; more;) {
    const std::uint64_t bytes = piece.bytes.size();
    const std::uint64_t begin = incoming->SpanAt(piece.offset, bytes).begin;
    const TraceSpan span;
    UnpackRows(incoming->rows, incoming->destination, piece.offset, bytes, piece.bytes.data());
    span.Done(TraceKind::kOutOfStaging, device_, piece.transfer, piece.offset, bytes);
    channel_->statistics().bytes_from_device.fetch_add(bytes, std::memory_order_relaxed);
    // Holding the mutex keeps this object from being destroyed.
    const MutexLock lock(mutex_);
    storing_.erase(std::find_if(storing_.begin(), storing_.end(), [&](const Destination& place) {
      return place.transfer == piece.transfer && place.span.begin == begin;
    }));
    CountStored(*incoming, piece);
    if (piece.waited) storing_kept_ = false;
    Done(piece);
    more = PopKept(&incoming, &piece);
  }
}

void Transfers::Skip(const Piece& piece) {
  std::shared_ptr<Incoming> incoming;
  Piece next;
  {
    const MutexLock lock(mutex_);
    Done(piece);
    if (!PopKept(&incoming, &next)) return;
  }
  Store(std::move(incoming), std::move(next));
}

bool Transfers::PopKept(std::shared_ptr<Incoming>* incoming, Piece* piece) {
  for (;;) {
    auto next = kept_.extract(stored_chunks_.load(std::memory_order_relaxed));
    if (next.empty()) return false;
    *piece = std::move(next.mapped());
    incoming->reset();
    if (Begin(*piece, false, incoming) && *incoming != nullptr) {
      if ((*incoming)->sink != nullptr) {
        Sink(*incoming, std::move(*piece));
        continue;
      }
      piece->waited = storing_kept_ = true;
      return true;
    }
    Done(*piece);  // Its transfer has failed since its arrival.
  }
}

void Transfers::Done(const Piece& piece) {
  std::uint64_t stored = stored_chunks_.load(std::memory_order_relaxed);
  stored_later_.insert(piece.number);
  while (!stored_later_.empty() && *stored_later_.begin() == stored) {
    stored_later_.erase(stored_later_.begin());
    ++stored;
  }
  stored_chunks_.store(stored, std::memory_order_release);
  if (piece.slot) channel_->ReleaseSlot(*piece.slot);
  channel_->own_bell().Ring();
  // Wakes only threads with work: thousands of chunks arrive per second, and a wake-up takes as
  // long as copying some of them.
  if (stopping_ || (!stored_awaited_.empty() && *stored_awaited_.begin() <= stored))
    received_.notify_all();
  outgoing_.OnStored(stored);
}

void Transfers::EndIncoming(Incoming& incoming, CUresult result) {
  incoming.result = result;
  incoming.ended = true;
  Complete(incoming);
}

void Transfers::Complete(Incoming& incoming) {
  if (!incoming.ended || incoming.storing != 0) return;
  incoming.complete.store(true, std::memory_order_release);
  if (incoming.at_end) incoming.at_end(incoming.result);
  received_.notify_all();
}

void Transfers::OnFailed(std::uint64_t transfer, CUresult result) {
  outgoing_.OnFailed(transfer);
  const MutexLock lock(mutex_);
  if (const auto known = incoming_.find(transfer); known != incoming_.end()) {
    EndIncoming(*known->second, result);
    incoming_.erase(known);
    common_->receiving.fetch_sub(1);
    failed_incoming_.insert(transfer);
    if (failed_incoming_.size() > kFailedRemembered)
      failed_incoming_.erase(failed_incoming_.begin());
  }
}

void Transfers::FailAll(CUresult result) {
  outgoing_.FailAll(result);
  const MutexLock lock(mutex_);
  failed_ = result;
  for (const auto& [number, incoming] : incoming_) EndIncoming(*incoming, result);
  common_->receiving.fetch_sub(static_cast<int>(incoming_.size()));
  incoming_.clear();
  received_.notify_all();
}

}  // namespace cuspan
