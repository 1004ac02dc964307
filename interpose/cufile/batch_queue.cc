#include "interpose/cufile/batch_queue.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "interpose/client/base/handles.h"
#include "interpose/cufile/stream_flags.h"

namespace cuspan::cufile {
namespace {

Request RequestOf(const BatchEntry& entry) {
  return {static_cast<Opcode>(entry.opcode),
          entry.handle,
          entry.base,
          entry.buffer_offset,
          entry.bytes,
          entry.file_offset};
}

// Code that refuses a whole batch for an entry. kSuccess: only the entry fails.
Code CodeOf(const Outcome& outcome) {
  if (outcome.error != 0) return kInvalidValue;
  switch (const auto code = static_cast<Code>(-outcome.value)) {
    case kInvalidValue:
    case kHandleNotRegistered:
    case kInvalidFileOpenFlag:
    case kInvalidMappingRange:
      return code;
    default:
      return kSuccess;
  }
}

}  // namespace

CallResult Batch::Submit(Session& session, std::span<const BatchEntry> entries) {
  std::vector<Prepared> prepared(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BatchEntry& entry = entries[i];
    if (entry.mode != BatchEntry::kOneBuffer || (entry.opcode != kRead && entry.opcode != kWrite))
      return Refuse(kBatchSubmitError, "the mode or the opcode of an entry is unknown");
    if (entry.handle == nullptr)
      return Refuse(kHandleNotRegistered, "the file's handle of an entry is null");
    if (entry.buffer_offset < 0)
      return Refuse(kInvalidValue, "the offset in an entry's memory is negative");
    Prepared& one = prepared[i];
    one.valid = one.operation.Prepare(session, RequestOf(entry), &one.outcome);
    if (one.valid) continue;
    if (const Code code = CodeOf(one.outcome); code != kSuccess) return {code, CUDA_SUCCESS};
    one.outcome = Outcome::System(EIO);
  }
  if (!session.TableOf<StreamFlagTable>().Start())
    return Refuse(kNoMemory, "the system allows no further thread");
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    if (closed_) return Refuse(kInvalidBatch, "the batch is destroyed");
    if (entries.size() > capacity_ - std::min<std::size_t>(capacity_, running_ + events_.size()))
      return Refuse(kBatchFull,
                    "the batch has no room for these entries: get the status of others");
    running_ += static_cast<unsigned>(entries.size());
    number = ++submits_;
  }
  for (std::size_t i = 0; i < entries.size(); ++i)
    Begin(session, number, entries[i].cookie, prepared[i]);
  return {};
}

void Batch::Begin(Session& session, std::uint64_t number, void* cookie, const Prepared& prepared) {
  const Operation& operation = prepared.operation;
  const auto end = [batch = shared_from_this(), cookie,
                    measurement = operation.Measure(session, Transferred::Kind::kBatchEntry)](
                       const Outcome& done, bool cancelled) {
    measurement.End(done);
    batch->EndEntry(cookie, cancelled ? kCancelled : done.failed() ? kFailed : kComplete, done);
  };
  if (!prepared.valid) return end(prepared.outcome, false);
  if (operation.on_host())
    return session.TableOf<StreamFlagTable>().host_bytes().Run(
        [batch = shared_from_this(), number, operation, end] {
          const bool cancelled = batch->IsCancelled(number);
          end(cancelled ? Outcome{} : operation.RunOnHost(), cancelled);
        });
  const CUresult posted =
      operation.PostAnywhere(session, [end](const Outcome& done) { end(done, false); });
  if (posted != CUDA_SUCCESS) end(Outcome::Of(Error(posted)), false);
}

void Batch::EndEntry(void* cookie, EntryState state, const Outcome& outcome) {
  // Errors of the system have no errno here: their number stands for them.
  const std::int64_t value = outcome.error != 0 ? -std::int64_t{outcome.error} : outcome.value;
  const MutexLock lock(mutex_);
  --running_;
  events_.push_back({cookie, state, static_cast<std::size_t>(value)});
  ended_.notify_all();
}

unsigned Batch::Report(unsigned least, std::span<BatchEvent> events, const timespec* limit) {
  MutexLock lock(mutex_);
  const auto enough = [&]() CUSPAN_REQUIRES(mutex_) {
    return events_.size() >= least || running_ == 0;
  };
  if (limit == nullptr) {
    ended_.wait(lock, enough);  // Entries end with their devices at the latest.
  } else {
    // A longer wait would overflow the clock.
    constexpr std::chrono::seconds kLongest = std::chrono::hours(24 * 365);
    const auto seconds =
        std::chrono::seconds(std::clamp<std::int64_t>(limit->tv_sec, 0, kLongest.count()));
    const auto wait = seconds + std::chrono::nanoseconds(
                                    std::clamp<std::int64_t>(limit->tv_nsec, 0, 999'999'999));
    ended_.wait_for(lock, wait, enough);
  }
  unsigned reported = 0;
  while (reported < events.size() && !events_.empty()) {
    events[reported++] = events_.front();
    events_.pop_front();
  }
  return reported;
}

void Batch::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = submits_;
}

bool Batch::IsCancelled(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  return number <= cancelled_;
}

void Batch::End() {
  MutexLock lock(mutex_);
  closed_ = true;
  // Entries end with their devices at the latest.
  ended_.wait(lock, [&]() CUSPAN_REQUIRES(mutex_) { return running_ == 0; });
}

std::uint64_t Batches::Add(unsigned capacity) {
  const std::uint64_t number = NextHandle();
  const MutexLock lock(mutex_);
  batches_.emplace(number, std::make_shared<Batch>(capacity));
  return number;
}

std::shared_ptr<Batch> Batches::Find(std::uint64_t batch) const {
  const MutexLock lock(mutex_);
  const auto known = batches_.find(batch);
  return known == batches_.end() ? nullptr : known->second;
}

std::shared_ptr<Batch> Batches::Take(std::uint64_t batch) {
  const MutexLock lock(mutex_);
  auto known = batches_.extract(batch);
  return known.empty() ? nullptr : std::move(known.mapped());
}

}  // namespace cuspan::cufile
