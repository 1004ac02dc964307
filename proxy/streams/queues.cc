#include "proxy/streams/queues.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace cuspan::proxy {

StreamQueues::StreamQueues() {
  streams_.push_back(StreamQueue(StreamQueue::Kind::kLegacy));
  legacy_ = &streams_.back();
  legacy_->self_ = streams_.begin();
}

StreamQueue& StreamQueues::AddStream(bool blocking) {
  streams_.push_back(
      StreamQueue(blocking ? StreamQueue::Kind::kBlocking : StreamQueue::Kind::kNonBlocking));
  streams_.back().self_ = std::prev(streams_.end());
  return streams_.back();
}

void StreamQueues::Retire(StreamQueue& stream) {
  if (stream.ops_.empty() && !stream.ready_) {
    streams_.erase(stream.self_);
    return;
  }
  stream.retired_ = true;
  retired_.push_back(&stream);
}

bool StreamQueues::MayStart(const StreamQueue& stream, std::uint64_t index,
                            const Dependency* dependency, bool uses_gpu) const {
  if (stream.paused_ || holds_ != 0 || (dependency != nullptr && !dependency->open())) return false;
  if (!InOrder(stream, index)) return false;
  // Must be the last check: WorkGate::MayStart counts a refusal as work delayed by the dependency
  // alone.
  return !uses_gpu || work_gate_ == nullptr || work_gate_->MayStart();
}

bool StreamQueues::InOrder(const StreamQueue& stream, std::uint64_t index) const {
  switch (stream.kind_) {
    case StreamQueue::Kind::kNonBlocking:
      return true;
    case StreamQueue::Kind::kBlocking:
      return legacy_->ops_.empty() || legacy_->ops_.front().index > index;
    case StreamQueue::Kind::kLegacy:
      if (busy_blocking_ == 0) return true;
      return std::none_of(busy_.begin(), busy_.end(),
                          [&](const StreamQueue* other) CUSPAN_REQUIRES(receiving_thread) {
                            return other->kind_ == StreamQueue::Kind::kBlocking &&
                                   other->ops_.front().index < index;
                          });
  }
  return false;
}

void StreamQueues::Enqueue(StreamQueue& stream, std::unique_ptr<StreamOp> op,
                           std::shared_ptr<Dependency> dependency, Start start) {
  const bool begun = start == Start::kBegun;
  const std::size_t bytes = sizeof(StreamQueue::Entry) + (begun ? 0 : op->Keep());
  if (stream.ops_.empty()) {
    stream.busy_position_ = busy_.size();
    busy_.push_back(&stream);
    if (stream.kind_ == StreamQueue::Kind::kBlocking) ++busy_blocking_;
  }
  stream.ops_.push_back({std::move(op), std::move(dependency), next_index_++, bytes, begun});
  ++waiting_ops_;
  waiting_bytes_ += bytes;
  if (start == Start::kInBatch) {
    stream.gathering_ = true;
    gathering_.push_back(&stream);
    return;
  }
  const bool batch_ends =
      stream.gathering_ && (stream.ops_.size() == kMaxInBatch ||
                            stream.ops_.back().op->Batches() != BatchKind::kLaunches);
  // The only op of its stream. If it waits for a dependency, Advance adds the stream to the
  // dependency's list.
  if (batch_ends || (stream.ops_.size() == 1 && !begun)) {
    MarkReady(stream);
    Pump();
  }
}

void StreamQueues::FlushGathered() {
  for (StreamQueue* stream : gathering_) MarkReady(*stream);
  Pump();
}

void StreamQueues::PopHead(StreamQueue& stream) {
  --waiting_ops_;
  ++taken_;
  waiting_bytes_ -= stream.ops_.front().bytes;
  stream.ops_.pop_front();
  if (stream.ops_.empty()) {
    busy_.back()->busy_position_ = stream.busy_position_;
    std::swap(busy_[stream.busy_position_], busy_.back());
    busy_.pop_back();
    if (stream.kind_ == StreamQueue::Kind::kBlocking) --busy_blocking_;
  }
  if (stream.kind_ == StreamQueue::Kind::kBlocking && !legacy_->ops_.empty()) MarkReady(*legacy_);
  if (stream.kind_ == StreamQueue::Kind::kLegacy) {
    for (StreamQueue* other : busy_)
      if (other->kind_ == StreamQueue::Kind::kBlocking) MarkReady(*other);
  }
}

void StreamQueues::MarkReady(StreamQueue& stream) {
  if (stream.ready_) return;
  stream.ready_ = true;
  ready_.push_back(&stream);
}

bool StreamQueues::BarrierBetween(std::uint64_t first, std::uint64_t last) const {
  return std::any_of(barriers_.begin(), barriers_.end(), [&](const Barrier& barrier) {
    return first < barrier.index && barrier.index <= last;
  });
}

void StreamQueues::DropBehindHead(StreamQueue& stream, std::size_t count) {
  const auto first = stream.ops_.begin() + 1;
  const auto last = first + static_cast<std::ptrdiff_t>(count);
  for (auto entry = first; entry != last; ++entry) waiting_bytes_ -= entry->bytes;
  stream.ops_.erase(first, last);
  waiting_ops_ -= count;
  taken_ += count;
}

// Submits the stream's first ops together. Returns false if the first one has to be submitted
// alone.
bool StreamQueues::AdvanceBatch(StreamQueue& stream) {
  batch_.clear();
  const BatchKind kind = stream.ops_.front().op->Batches();
  if (kind == BatchKind::kNone) return false;
  for (const StreamQueue::Entry& entry : stream.ops_) {
    // The first op's dependency has completed. Other ops with dependencies are left out: the whole
    // batch would wait for them.
    if (batch_.size() == kMaxInBatch || (entry.dependency != nullptr && !batch_.empty()) ||
        entry.op->Batches() != kind ||
        !MayStart(stream, entry.index, nullptr, entry.op->UsesGpu()) ||
        BarrierBetween(stream.ops_.front().index, entry.index))
      break;
    batch_.push_back(entry.op.get());
  }
  if (batch_.size() < 2) return false;
  const auto [taken, result] = batch_.front()->SubmitBatch(batch_);
  if (taken != 0 && result == SubmitResult::kHeld) {
    stream.ops_.front().begun = true;
    DropBehindHead(stream, taken - 1);
  } else {
    for (std::size_t i = 0; i < taken; ++i) PopHead(stream);
  }
  return taken != 0;
}

void StreamQueues::Advance(StreamQueue& stream) {
  if (stream.gathering_) {
    stream.gathering_ = false;
    std::erase(gathering_, &stream);
  }
  while (!stream.ops_.empty()) {
    StreamQueue::Entry& head = stream.ops_.front();
    if (head.begun) return;
    if (head.dependency != nullptr && !head.dependency->open()) {
      if (!stream.at_gate_) head.dependency->waiting_.push_back(&stream);
      stream.at_gate_ = true;
      return;
    }
    if (!MayStart(stream, head.index, nullptr, head.op->UsesGpu())) return;
    if (AdvanceBatch(stream)) continue;
    head.begun = true;
    if (head.op->Submit() == SubmitResult::kHeld) return;
    PopHead(stream);
  }
}

void StreamQueues::Pump() {
  // Ops completing dependencies while they are submitted call Pump again. The list ready_ replaces
  // a recursion as deep as the chain of dependencies.
  if (pumping_) return;
  pumping_ = true;
  while (!ready_.empty()) {
    StreamQueue& stream = *ready_.back();
    ready_.pop_back();
    stream.ready_ = false;
    Advance(stream);
  }
  pumping_ = false;
  std::erase_if(retired_, [this](StreamQueue* stream) CUSPAN_REQUIRES(receiving_thread) {
    if (!stream->ops_.empty()) return false;
    streams_.erase(stream->self_);
    return true;
  });
  PassBarriers();
}

void StreamQueues::Release(StreamQueue& stream) {
  if (lost_) return;
  assert(!stream.ops_.empty() && stream.ops_.front().begun);
  PopHead(stream);
  MarkReady(stream);
  Pump();
}

void StreamQueues::Resume(StreamQueue& stream) {
  stream.paused_ = false;
  if (lost_) return;
  MarkReady(stream);
  Pump();
}

void StreamQueues::LetAll() {
  if (--holds_ != 0 || lost_) return;
  LetWork();
}

void StreamQueues::LetWork() {
  for (StreamQueue* stream : busy_) MarkReady(*stream);
  // Pump takes the last element first: the stream with the oldest op.
  std::sort(ready_.begin(), ready_.end(),
            [](const StreamQueue* a, const StreamQueue* b) CUSPAN_REQUIRES(receiving_thread) {
              const auto index = [](const StreamQueue* stream) CUSPAN_REQUIRES(receiving_thread) {
                return stream->ops_.empty() ? 0 : stream->ops_.front().index;
              };
              return index(a) > index(b);
            });
  Pump();
}

void StreamQueues::Open(Dependency& dependency) {
  dependency.open_ = true;
  if (lost_) return;
  for (StreamQueue* stream : dependency.waiting_) {
    stream->at_gate_ = false;
    MarkReady(*stream);
  }
  dependency.waiting_.clear();
  Pump();
}

void StreamQueues::WhenSubmitted(std::function<void()> then) {
  if (busy_.empty()) return then();
  barriers_.push_back({next_index_, std::move(then)});
}

void StreamQueues::PassBarriers() {
  while (!barriers_.empty()) {
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    for (const StreamQueue* stream : busy_) oldest = std::min(oldest, stream->ops_.front().index);
    if (oldest < barriers_.front().index) return;
    const std::function<void()> then = std::move(barriers_.front().then);
    barriers_.pop_front();
    then();
  }
}

void StreamQueues::DropAll() {
  if (lost_) return;
  lost_ = true;
  ready_.clear();
  gathering_.clear();
  retired_.clear();
  busy_.clear();
  busy_blocking_ = 0;
  waiting_ops_ = 0;
  waiting_bytes_ = 0;
  std::vector<StreamQueue::Entry> dropped;
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    for (StreamQueue::Entry& entry : stream->ops_) dropped.push_back(std::move(entry));
    stream->ops_.clear();
    stream->ready_ = false;
    stream->gathering_ = false;
    stream = stream->retired_ ? streams_.erase(stream) : std::next(stream);
  }
  std::sort(dropped.begin(), dropped.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  for (StreamQueue::Entry& entry : dropped) entry.op->Drop();
  PassBarriers();
}

std::size_t StreamQueues::begun_ops() const {
  return static_cast<std::size_t>(std::count_if(
      busy_.begin(), busy_.end(), [](const auto* stream) CUSPAN_REQUIRES(receiving_thread) {
        return stream->ops_.front().begun;
      }));
}

bool StreamQueues::EmptyAround(const StreamQueue& stream) const {
  if (!stream.ops_.empty()) return false;
  if (stream.kind_ == StreamQueue::Kind::kLegacy) return busy_blocking_ == 0;
  return stream.kind_ == StreamQueue::Kind::kNonBlocking || legacy_->ops_.empty();
}

}  // namespace cuspan::proxy
