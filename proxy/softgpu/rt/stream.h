// Streams and events of one context, with CUDA's rules for the legacy default
// stream: work in it waits for all work issued before in blocking streams, and
// work in those waits for what was issued in it before.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "proxy/softgpu/rt/queue.h"

namespace cuspan::softgpu {

class Stream {
 public:
  Stream(bool blocking, int priority) : blocking_(blocking), priority_(priority) {}
  int priority() const { return priority_; }

 private:
  friend class StreamSet;
  const bool blocking_;
  const int priority_;
  OperationPtr last_;  // Guarded by the set's mutex.
};

using StreamPtr = std::shared_ptr<Stream>;

// Marks a place in a stream. Any thread calls.
class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}
  bool timed() const { return timed_; }
  // The record that counts: the last one; null before the first.
  OperationPtr record() const;
  void SetRecord(OperationPtr record);

 private:
  const bool timed_;
  mutable std::mutex mutex_;
  OperationPtr record_;
};

// Any thread calls.
class StreamSet {
 public:
  explicit StreamSet(OperationQueue& queue);

  const StreamPtr& legacy() const { return legacy_; }
  // The calling thread's own default stream.
  StreamPtr PerThread();
  StreamPtr Create(bool blocking, int priority);
  // The stream takes no more work; what it has goes on.
  void Destroy(const StreamPtr& stream);

  // Adds an operation behind the stream's work (and `after`, if given).
  OperationPtr Enqueue(Stream& stream, std::unique_ptr<Task> task, OperationPtr after = nullptr);
  OperationPtr EnqueueSequence(Stream& stream, std::unique_ptr<TaskSequence> tasks,
                               OperationPtr after);
  // Records `event` behind the stream's work; in one step, so that two threads
  // that record one event leave it with the later of the two places.
  void Record(Stream& stream, Event& event);

  // What must be done for the stream, or for the whole context, to be idle.
  // Operations that are done are left out.
  std::vector<OperationPtr> Pending(const Stream& stream) const;
  std::vector<OperationPtr> Pending() const;

 private:
  void EnqueueLocked(Stream& stream, const OperationPtr& operation, OperationPtr after);
  void AppendPending(const Stream& stream, std::vector<OperationPtr>* operations) const;

  // All streams but the legacy one.
  template <typename Visit>
  void ForEachOther(Visit visit) const {
    for (const auto* list : {&streams_, &per_thread_, &leaving_}) {
      for (const StreamPtr& stream : *list) visit(*stream);
    }
  }

  OperationQueue& queue_;
  const std::uint64_t number_;  // Never used again for another set.
  mutable std::mutex mutex_;
  const StreamPtr legacy_;
  std::vector<StreamPtr> streams_;
  std::vector<StreamPtr> per_thread_;
  // Destroyed while busy: their work still orders the legacy stream's.
  std::vector<StreamPtr> leaving_;
};

}  // namespace cuspan::softgpu
