// Keeps the order of a device's streams in software. Does not use the GPU.
//
// An op is submitted to the driver (StreamOp::Submit) after all ops it depends on. From there on,
// the driver keeps the order. An op depends on:
//   - earlier ops of the same stream;
//   - earlier ops of all blocking streams, for an op of the legacy default stream;
//     earlier ops of the legacy stream, for an op of a blocking stream;
//   - its dependency (Gate): the record of an event, or a signal.
// Additionally, a stream submits no ops while it is paused, and no stream does while all are held.
// If the device is shared with other runs, GPU work (StreamOp::UsesGpu) waits for the WorkGate. An
// op submitted in parts (a copy from the host, in chunks) holds its stream until Release; other
// streams continue.
//
// If an op need not wait, it is submitted at once, without an allocation. Otherwise it is moved
// into its stream's queue.
//
// Consecutive ops of one kind in a queue may be submitted together (StreamOp::SubmitBatch). An op
// ready for submission may also wait for others (StreamOp::WaitsForBatch). It waits until the batch
// is full, an op of another kind arrives, or FlushGathered is called.
//
// Threads: one at a time (the receiving thread).
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Result of submitting an op.
enum class SubmitResult {
  kSubmitted,  // Submitted, or failed and reported; the stream continues.
  kHeld,       // Partly submitted; waits for StreamQueues::Release.
};

// The same for a batch. If the batch holds the stream, its first op stays queued; the others are
// removed.
struct BatchResult {
  std::size_t taken = 0;
  SubmitResult result = SubmitResult::kSubmitted;
};

// Kinds of ops submitted together with neighbours of the same kind.
enum class BatchKind { kNone, kLaunches, kCollectives };

class StreamOp {
 public:
  virtual ~StreamOp() = default;
  // Submits the op to the driver. May call only Open and Pause of the queues.
  virtual SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) = 0;
  // Called before the op is queued: copies data still in the received frame. Returns the number of
  // bytes kept beyond the op's own size.
  virtual std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) { return 0; }
  // Kind of neighbours in the stream for a common submission; kNone if it is always submitted
  // alone.
  virtual BatchKind Batches() const CUSPAN_REQUIRES(receiving_thread) { return BatchKind::kNone; }
  // Submits the first ops of `batch` together: this op and its successors, all of one kind. Returns
  // their number, or 0 if this op has to be submitted alone. May call the same functions as Submit.
  virtual BatchResult SubmitBatch(std::span<StreamOp* const> /*batch*/)
      CUSPAN_REQUIRES(receiving_thread) {
    return {};
  }
  // True for a launch ready for submission if it should wait for others to form a batch. Not
  // virtual: StreamQueues::Add is a template over the op's type.
  bool WaitsForBatch() const CUSPAN_REQUIRES(receiving_thread) { return false; }
  // True for work of the GPU's processors; false for copies from or to the host, and for marks.
  virtual bool UsesGpu() const { return false; }
  // Called if the device is lost, in place of Submit or of the rest of a held op.
  virtual void Drop() CUSPAN_REQUIRES(receiving_thread) {}
};

// Admission control for work on a GPU shared with other runs.
class WorkGate {
 public:
  virtual ~WorkGate() = default;
  // True if the next work may be submitted now. Refused work is checked again after
  // StreamQueues::LetWork.
  virtual bool MayStart() CUSPAN_REQUIRES(receiving_thread) = 0;
};

class StreamQueue;

// A dependency of ops: an event happening once.
class Dependency {
 public:
  bool open() const CUSPAN_REQUIRES(receiving_thread) { return open_; }

 private:
  friend class StreamQueues;
  bool open_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::vector<StreamQueue*> waiting_ CUSPAN_GUARDED_BY(receiving_thread);
};

// Queue of one stream in StreamQueues, its owner.
class StreamQueue {
 public:
  // True if its next op would wait for Resume.
  bool paused() const CUSPAN_REQUIRES(receiving_thread) { return paused_; }

 private:
  friend class StreamQueues;
  struct Entry {
    std::unique_ptr<StreamOp> op;
    std::shared_ptr<Dependency> dependency;
    std::uint64_t index;  // Sequence number over all ops of the device.
    std::size_t bytes;
    bool begun;
  };
  enum class Kind { kLegacy, kBlocking, kNonBlocking };
  explicit StreamQueue(Kind kind) : kind_(kind) {}

  const Kind kind_;
  std::deque<Entry> ops_ CUSPAN_GUARDED_BY(receiving_thread);
  std::size_t busy_position_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // Its index in StreamQueues::busy_ while `ops_` is not empty.
  bool ready_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Is in StreamQueues::ready_.
  // Is in waiting_ of its head's dependency.
  bool at_gate_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool gathering_ CUSPAN_GUARDED_BY(receiving_thread) = false;  // Is in StreamQueues::gathering_.
  bool retired_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool paused_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::list<StreamQueue>::iterator self_ CUSPAN_GUARDED_BY(receiving_thread);
};

class StreamQueues {
 public:
  StreamQueues();
  StreamQueues(const StreamQueues&) = delete;

  // The legacy default stream.
  StreamQueue& legacy() CUSPAN_REQUIRES(receiving_thread) { return *legacy_; }
  // Adds a stream. If `blocking`, it keeps order with the legacy stream.
  StreamQueue& AddStream(bool blocking) CUSPAN_REQUIRES(receiving_thread);
  // Removes the stream once its queue is empty. It accepts no more ops.
  void Retire(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);

  // Dependency to ask from now on, or null; outlives the queues.
  void SetWorkGate(WorkGate* dependency) CUSPAN_REQUIRES(receiving_thread) {
    work_gate_ = dependency;
  }
  // The dependency may now admit work it refused before.
  void LetWork() CUSPAN_REQUIRES(receiving_thread);

  // Adds the next op of `stream`. It is submitted now or later, once the dependency `dependency`
  // (if any) has completed.
  template <std::derived_from<StreamOp> T>
  void Add(StreamQueue& stream, T op, std::shared_ptr<Dependency> dependency = nullptr)
      CUSPAN_REQUIRES(receiving_thread) {
    if (lost_) return op.Drop();
    Start start = Start::kWhenItMay;
    if (stream.ops_.empty() && MayStart(stream, next_index_, dependency.get(), op.UsesGpu())) {
      if (op.WaitsForBatch()) {
        start = Start::kInBatch;
      } else if (op.Submit() == SubmitResult::kHeld) {
        start = Start::kBegun;
      } else {
        ++next_index_;
        return;
      }
    }
    Enqueue(stream, std::make_unique<T>(std::move(op)), std::move(dependency), start);
  }

  // Maximum of ops submitted together.
  static constexpr std::size_t kMaxInBatch = 32;
  // True if ops wait only for others to form a batch.
  std::size_t gathering() const CUSPAN_REQUIRES(receiving_thread) { return gathering_.size(); }
  // Submits these ops without waiting any longer.
  void FlushGathered() CUSPAN_REQUIRES(receiving_thread);

  // Removes the op holding `stream`: its rest was submitted.
  void Release(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  // The dependency has completed. May be called inside Submit.
  void Open(Dependency& dependency) CUSPAN_REQUIRES(receiving_thread);

  // Submits no more ops of `stream` until Resume. Ops of other streams depending on its queued ones
  // wait, too.
  void Pause(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread) { stream.paused_ = true; }
  void Resume(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  // Submits no more ops of any stream until LetAll. Calls nest.
  void HoldAll() CUSPAN_REQUIRES(receiving_thread) { ++holds_; }
  void LetAll() CUSPAN_REQUIRES(receiving_thread);
  bool held() const CUSPAN_REQUIRES(receiving_thread) { return holds_ != 0; }

  // Calls `then` once all ops added before have been submitted or dropped.
  void WhenSubmitted(std::function<void()> then) CUSPAN_REQUIRES(receiving_thread);

  // True if WhenSubmitted still waits.
  bool awaited() const CUSPAN_REQUIRES(receiving_thread) { return !barriers_.empty(); }

  // Drops all ops, also ops added later: the device is lost.
  void DropAll() CUSPAN_REQUIRES(receiving_thread);

  // True if `stream` has no queued ops.
  static bool Empty(const StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread) {
    return stream.ops_.empty();
  }
  // True if neither `stream` nor streams it keeps order with have queued ops.
  bool EmptyAround(const StreamQueue& stream) const CUSPAN_REQUIRES(receiving_thread);
  // Number of queued ops, and their memory.
  std::size_t waiting_ops() const CUSPAN_REQUIRES(receiving_thread) { return waiting_ops_; }
  std::size_t waiting_bytes() const CUSPAN_REQUIRES(receiving_thread) { return waiting_bytes_; }
  // Number of queued ops holding their streams: partly submitted.
  std::size_t begun_ops() const CUSPAN_REQUIRES(receiving_thread);
  // Number of queued ops submitted or dropped so far.
  std::uint64_t taken() const CUSPAN_REQUIRES(receiving_thread) { return taken_; }

 private:
  struct Barrier {
    std::uint64_t index;
    std::function<void()> then;
  };
  bool MayStart(const StreamQueue& stream, std::uint64_t index, const Dependency* dependency,
                bool uses_gpu) const CUSPAN_REQUIRES(receiving_thread);
  bool InOrder(const StreamQueue& stream, std::uint64_t index) const
      CUSPAN_REQUIRES(receiving_thread);
  enum class Start { kWhenItMay, kBegun, kInBatch };
  void Enqueue(StreamQueue& stream, std::unique_ptr<StreamOp> op,
               std::shared_ptr<Dependency> dependency, Start start)
      CUSPAN_REQUIRES(receiving_thread);
  void PopHead(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  void MarkReady(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  void Pump() CUSPAN_REQUIRES(receiving_thread);
  void Advance(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  bool AdvanceBatch(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  void DropBehindHead(StreamQueue& stream, std::size_t count) CUSPAN_REQUIRES(receiving_thread);
  bool BarrierBetween(std::uint64_t first, std::uint64_t last) const
      CUSPAN_REQUIRES(receiving_thread);
  void PassBarriers() CUSPAN_REQUIRES(receiving_thread);

  std::list<StreamQueue> streams_ CUSPAN_GUARDED_BY(receiving_thread);
  StreamQueue* legacy_;
  std::vector<StreamQueue*> busy_ CUSPAN_GUARDED_BY(receiving_thread);  // Streams with queued ops.
  std::size_t busy_blocking_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;                             // Number of blocking streams in busy_.
  std::vector<StreamQueue*> ready_;  // Streams to be examined by Pump.
  std::vector<StreamQueue*> retired_;
  std::vector<StreamQueue*> gathering_;  // Streams with ops waiting for a batch.
  std::vector<StreamOp*> batch_
      CUSPAN_GUARDED_BY(receiving_thread);  // Ops being submitted together.
  std::deque<Barrier> barriers_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t next_index_ CUSPAN_GUARDED_BY(receiving_thread) = 1;
  std::size_t waiting_ops_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::size_t waiting_bytes_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t taken_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t holds_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  WorkGate* work_gate_ CUSPAN_GUARDED_BY(receiving_thread) =
      nullptr;  // Null if the device is not shared.
  bool pumping_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool lost_ CUSPAN_GUARDED_BY(receiving_thread) = false;
};

}  // namespace cuspan::proxy
