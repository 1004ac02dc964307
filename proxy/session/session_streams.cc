#include "proxy/session/session_streams.h"

#include <algorithm>
#include <atomic>

#include "common/raise.h"

namespace cuspan::proxy {

SessionStreams::SessionStreams(const Driver& driver, Channel& channel, Faults& faults,
                               Worker& worker, Completer& completer)
    : driver_(driver),
      faults_(faults),
      completer_(completer),
      timing_events_(driver, CU_EVENT_DEFAULT),
      points_(driver, channel, faults, completer),
      pending_(faults, points_.events(), queues_, completer),
      holds_(queues_, worker, channel.own_bell()) {
  legacy_->queue = &queues_.legacy();
}

Result<std::shared_ptr<Stream>> SessionStreams::FindDelegated(std::uint64_t handle) {
  if (handle == 0 || handle == reinterpret_cast<std::uint64_t>(CU_STREAM_LEGACY)) return legacy_;
  return table_.Get(handle);
}

void SessionStreams::GoOn() {
  if (pending_.SomeMayResume()) pending_.Resume();
  if (holds_.SomeDone()) holds_.LetDone();
}

void SessionStreams::DropAll() {
  queues_.DropAll();
  pending_.Forget();
}

void SessionStreams::Forsake(const std::shared_ptr<Stream>& stream) {
  // Submitted work continues in the driver; DeviceSynchronize may have to wait for it.
  if (!stream->Idle()) {
    ForgetOldProgress();
    old_progress_.emplace_back(stream->progress, stream->submitted);
    WhenDone(*stream, [](CUresult, std::uint64_t) {});
  }
  if (stream->asked == nullptr) return;
  PooledEvent event;
  if (faults_.Check(points_.events().Record(stream->driver, event)) == CUDA_SUCCESS)
    stream->asked->Replace(std::move(event));
}

void SessionStreams::WhenDone(Stream& stream, Answer answer, Work work) {
  CUresult result = faults_.lost();
  if (result == CUDA_SUCCESS) result = stream.broken;
  // The device executes a mark in the stream after that work.
  const bool others =
      work == Work::kAllBefore &&
      (IsLegacy(stream) ? !OthersIdle(stream) : stream.blocking && !legacy_->Idle());
  if (result == CUDA_SUCCESS && !others && BehindLegacy(stream))
    return completer_.Add(stream.progress, StreamPoint(stream.Asked()), stream.submitted,
                          std::move(answer));
  // If a copy to the client was the last op, its last chunk marks the stream's end. The legacy
  // stream also waits for later work of other streams.
  bool known = !others && stream.chunk_behind == stream.submitted &&
               (!IsLegacy(stream) || OthersIdle(stream));
  if (result == CUDA_SUCCESS && !known && !others) {
    // Work finished already needs no mark. With more streams than the device has channels, the mark
    // could wait for another stream's work. A query of pending work is cheap.
    result = driver_.cuStreamQuery(stream.driver);
    known = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_READY) result = CUDA_SUCCESS;
    faults_.Check(result);
  }
  if (result == CUDA_SUCCESS && !known) {
    if (IsLegacy(stream)) {
      legacy_marks_.fetch_add(1, std::memory_order_relaxed);
      answer = [this, answer = std::move(answer)](CUresult reached, std::uint64_t chunks) {
        legacy_marks_.fetch_sub(1, std::memory_order_release);
        answer(reached, chunks);
      };
    }
    return points_.AddMark(stream.driver, stream.progress, stream.Asked(), stream.submitted,
                           std::move(answer));
  }
  if (result != CUDA_SUCCESS) return answer(result, completer_.pushed());
  completer_.Add(stream.progress, PooledEvent(), stream.submitted, std::move(answer));
}

bool SessionStreams::DeviceMarks(const Stream& stream) {
  return !IsLegacy(stream) && !BehindLegacy(stream) && !KernelOutput::Expected() &&
         !completer_.chunks_pending();
}

bool SessionStreams::BehindLegacy(const Stream& stream) const {
  return stream.blocking && !IsLegacy(stream) &&
         (legacy_marks_.load(std::memory_order_acquire) != 0 ||
          (legacy_->sequence > stream.sequence && !legacy_->Idle()));
}

bool SessionStreams::OthersIdle(const Stream& stream) {
  if (queues_.waiting_ops() != 0) return false;
  ForgetOldProgress();
  bool idle = old_progress_.empty() && (IsLegacy(stream) || legacy_->Idle());
  table_.ForEach([&](const Stream& other) {
    receiving_thread.AssertHeld();
    idle = idle && (&other == &stream || other.Idle());
  });
  return idle;
}

bool SessionStreams::AllDone(const Stream* except) {
  ForgetOldProgress();
  bool done = old_progress_.empty();
  const auto ask = [&](Stream& other) {
    receiving_thread.AssertHeld();
    if (!done || &other == except || other.broken != CUDA_SUCCESS || other.Idle() ||
        other.found_done == other.submitted)
      return;
    done = !other.delegated.pending() && driver_.cuStreamQuery(other.driver) == CUDA_SUCCESS;
    if (done) other.found_done = other.submitted;
  };
  ask(*legacy_);
  table_.ForEach(ask);
  return done;
}

void SessionStreams::WhenAllDone(Answer answer) {
  queues_.WhenSubmitted([this, answer = std::move(answer)]() CUSPAN_REQUIRES(
                            receiving_thread) mutable { WhenHandedOverDone(std::move(answer)); });
}

void SessionStreams::WhenHandedOverDone(Answer answer) {
  // Answers once, after the last stream, with the first failure and the maximum number of chunks.
  // Two threads report completions, and the last one may have read the smaller number.
  struct Join {
    explicit Join(Answer answer) : answer(std::move(answer)) {}
    void Done(CUresult result, std::uint64_t chunks) {
      int none = CUDA_SUCCESS;
      if (result != CUDA_SUCCESS) worst.compare_exchange_strong(none, result);
      RaiseTo(most_chunks, chunks);
      if (missing.fetch_sub(1) == 1)
        answer(static_cast<CUresult>(worst.load()), most_chunks.load());
    }
    std::atomic<int> missing = 1;
    std::atomic<int> worst = CUDA_SUCCESS;
    std::atomic<std::uint64_t> most_chunks = 0;
    const Answer answer;
  };
  auto join = std::make_shared<Join>(std::move(answer));
  const Answer part = [join](CUresult result, std::uint64_t chunks) { join->Done(result, chunks); };
  const auto wait_for = [&](Stream& stream) {
    receiving_thread.AssertHeld();
    if (stream.Idle() || stream.broken != CUDA_SUCCESS) return;
    ++join->missing;
    WhenDone(stream, part);
  };
  // The legacy stream last: its mark also waits for the blocking streams.
  table_.ForEach(wait_for);
  wait_for(*legacy_);
  ForgetOldProgress();
  for (const auto& [progress, mark] : old_progress_) {
    ++join->missing;
    completer_.Add(progress, PooledEvent(), mark, part);
  }
  join->Done(faults_.lost(), completer_.pushed());
}

bool SessionStreams::Done(const Stream& stream) {
  if (!IsLegacy(stream)) return stream.Idle();
  ForgetOldProgress();
  bool done = legacy_->Idle() && old_progress_.empty();
  table_.ForEach([&](const Stream& other) {
    receiving_thread.AssertHeld();
    done = done && (!other.blocking || other.Idle());
  });
  return done;
}

void SessionStreams::ForgetOldProgress() {
  std::erase_if(old_progress_,
                [](const auto& old) { return old.first->completed() >= old.second; });
}

}  // namespace cuspan::proxy
