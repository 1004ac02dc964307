// Batches of reads and writes, in no order with each other or with other work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/cufile/operation.h"

namespace cuspan::cufile {

// Threads: any.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  // Room for `capacity` entries at the same time.
  explicit Batch(unsigned capacity) : capacity_(capacity) {}

  unsigned capacity() const { return capacity_; }
  // Begins all entries, or none. An entry ends as kFailed if its memory is found wrong.
  CallResult Submit(Session& session, std::span<const BatchEntry> entries);
  // Waits until `least` ended entries can be reported, or none is left, or for `limit` (null: no
  // limit; negative times: 0). Reports at most events.size() of them, each once. Returns their
  // number.
  unsigned Report(unsigned least, std::span<BatchEvent> events, const timespec* limit);
  // Entries submitted before that have not begun end as kCancelled.
  void Cancel();
  // Takes no more entries, and waits until the memory of all of them is free again.
  void End();

 private:
  // True if the submit of this number was cancelled.
  bool IsCancelled(std::uint64_t number) const;
  struct Prepared {
    Operation operation;
    Outcome outcome;  // If it is not valid.
    bool valid = false;
  };
  void Begin(Session& session, std::uint64_t number, void* cookie, const Prepared& prepared);
  void EndEntry(void* cookie, EntryState state, const Outcome& outcome);

  const unsigned capacity_;
  mutable Mutex mutex_;
  std::condition_variable ended_;
  unsigned running_ CUSPAN_GUARDED_BY(mutex_) = 0;
  bool closed_ CUSPAN_GUARDED_BY(mutex_) = false;
  std::uint64_t submits_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::uint64_t cancelled_ CUSPAN_GUARDED_BY(mutex_) = 0;    // Submits up to this one are.
  std::deque<BatchEvent> events_ CUSPAN_GUARDED_BY(mutex_);  // Ended, and not reported.
};

// Threads: any. A table of the session.
class Batches {
 public:
  std::uint64_t Add(unsigned capacity);
  // Null for unknown ones.
  std::shared_ptr<Batch> Find(std::uint64_t batch) const;
  // Removes it. Null for unknown ones.
  std::shared_ptr<Batch> Take(std::uint64_t batch);

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Batch>> batches_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::cufile
