// Streams and events of one context, with CUDA's rules for the legacy default stream. Its work
// waits for all earlier work in blocking streams. Their work waits for earlier work in the legacy
// stream.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
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

// Marks a position in a stream. Threads: any.
class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}
  bool timed() const { return timed_; }
  // Latest record; null before the first.
  OperationPtr record() const;
  void SetRecord(OperationPtr record);

 private:
  const bool timed_;
  mutable std::mutex mutex_;
  OperationPtr record_;
};

// Threads: any.
class StreamSet {
 public:
  explicit StreamSet(OperationQueue& queue);

  const StreamPtr& legacy() const { return legacy_; }
  // Returns the calling thread's own default stream.
  StreamPtr PerThread();
  StreamPtr Create(bool blocking, int priority);
  // Removes the stream; its submitted work continues.
  void Destroy(const StreamPtr& stream);

  // Adds an operation after the stream's work (and `after`, if given).
  OperationPtr Enqueue(Stream& stream, std::unique_ptr<Task> task, OperationPtr after = nullptr);
  OperationPtr EnqueueSequence(Stream& stream, std::unique_ptr<TaskSequence> tasks,
                               OperationPtr after);
  // Records `event` after the stream's work. Atomic: if two threads record one event, it keeps the
  // later position.
  void Record(Stream& stream, Event& event);

  // Waits until all work is done. Until then, other threads that add work wait, too.
  void Drain();

  // Returns unfinished operations of the stream, or of the whole context. It is idle when they are
  // done.
  std::vector<OperationPtr> Pending(const Stream& stream) const;
  std::vector<OperationPtr> Pending() const;

 private:
  void EnqueueLocked(Stream& stream, const OperationPtr& operation, OperationPtr after);
  void AppendPending(const Stream& stream, std::vector<OperationPtr>* operations) const;

  // Visits all streams except the legacy one.
  template <typename Visit>
  void ForEachOther(Visit visit) const {
    for (const auto* list : {&streams_, &per_thread_, &leaving_}) {
      for (const StreamPtr& stream : *list) visit(*stream);
    }
  }

  OperationQueue& queue_;
  const std::uint64_t number_;  // Never reused.
  std::shared_mutex adding_;    // Locked before mutex_; exclusively by Drain.
  mutable std::mutex mutex_;
  const StreamPtr legacy_;
  std::vector<StreamPtr> streams_;
  std::vector<StreamPtr> per_thread_;
  // Streams destroyed while busy: the legacy stream still waits for their work.
  std::vector<StreamPtr> leaving_;
};

}  // namespace cuspan::softgpu
