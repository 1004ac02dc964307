// The order of a device's streams, kept in software. Knows no GPU.
//
// An op is handed to the driver (StreamOp::Submit) when everything that must
// come before it has been handed over; on the device the driver keeps the order
// from there on. What must come before an op:
//   - earlier ops of the same stream;
//   - for an op of the legacy default stream, earlier ops of all blocking
//     streams, and for an op of a blocking stream, earlier ops of the legacy stream;
//   - what its Dependency stands for: the record of an event, a signal.
// Besides, a stream takes nothing while it is paused, and none does while all are held. Where the
// device is shared with others, work for it (StreamOp::UsesGpu) waits until the WorkGate lets it.
// An op that is handed over piece by piece (a copy from the host, whose chunks
// come one after another) holds its stream until Release; other streams go on.
//
// When nothing is in the way an op is submitted at once, from where it lies,
// without an allocation. Otherwise it is moved into its stream's queue.
//
// Ops of one kind that lie next to each other in a queue may be handed over together
// (StreamOp::SubmitBatch). An op that could go may also wait for such company
// (StreamOp::WaitsForBatch), until it is a full batch, an op that is not of its
// kind comes, or FlushGathered.
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

// What became of an op when its turn came.
enum class SubmitResult {
  kSubmitted,  // Handed over, or failed and reported: the stream goes on.
  kHeld,       // Begun; the stream waits for StreamQueues::Release.
};

// The same for several. When they hold the stream, the first one does: the others are gone.
struct BatchResult {
  std::size_t taken = 0;
  SubmitResult result = SubmitResult::kSubmitted;
};

// What is handed over together with its neighbours.
enum class BatchKind { kNone, kLaunches, kCollectives };

class StreamOp {
 public:
  virtual ~StreamOp() = default;
  // Hands the op to the driver. May call Open and Pause of the queues, nothing else.
  virtual SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) = 0;
  // Called before the op is queued: copies what points into the frame it came
  // in. Returns the bytes that it keeps beyond its own size.
  virtual std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) { return 0; }
  // It may be handed over together with its neighbours in the stream that are of the same kind.
  virtual BatchKind Batches() const CUSPAN_REQUIRES(receiving_thread) { return BatchKind::kNone; }
  // Hands over the first ops of `batch` together: this one and those that follow it, all of one
  // kind. Says how many; none when this one is to go by itself. As Submit.
  virtual BatchResult SubmitBatch(std::span<StreamOp* const> /*batch*/)
      CUSPAN_REQUIRES(receiving_thread) {
    return {};
  }
  // Of a launch that could be submitted now: whether it had better wait for others to make a batch.
  // Not virtual: StreamQueues::Add knows what it adds.
  bool WaitsForBatch() const CUSPAN_REQUIRES(receiving_thread) { return false; }
  // It is work for the GPU's processors: not a copy from or to the host, nor a mark.
  virtual bool UsesGpu() const { return false; }
  // Called instead of Submit, or of the rest of a held op, when the device is lost.
  virtual void Drop() CUSPAN_REQUIRES(receiving_thread) {}
};

// What work for a GPU has to pass that others use, too.
class WorkGate {
 public:
  virtual ~WorkGate() = default;
  // Whether the next work may be handed over now. One that was refused is asked about again after
  // StreamQueues::LetWork.
  virtual bool MayStart() CUSPAN_REQUIRES(receiving_thread) = 0;
};

class StreamQueue;

// Something that ops wait for and that happens once.
class Dependency {
 public:
  bool open() const CUSPAN_REQUIRES(receiving_thread) { return open_; }

 private:
  friend class StreamQueues;
  bool open_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  std::vector<StreamQueue*> waiting_ CUSPAN_GUARDED_BY(receiving_thread);
};

// One stream's place in StreamQueues; belongs to it.
class StreamQueue {
 private:
  friend class StreamQueues;
  struct Entry {
    std::unique_ptr<StreamOp> op;
    std::shared_ptr<Dependency> dependency;
    std::uint64_t index;  // Counts all ops of the device.
    std::size_t bytes;
    bool begun;
  };
  enum class Kind { kLegacy, kBlocking, kNonBlocking };
  explicit StreamQueue(Kind kind) : kind_(kind) {}

  const Kind kind_;
  std::deque<Entry> ops_ CUSPAN_GUARDED_BY(receiving_thread);
  std::size_t busy_position_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;  // Its index in StreamQueues::busy_ while `ops_` is not empty.
  bool ready_ CUSPAN_GUARDED_BY(receiving_thread) = false;      // Is in StreamQueues::ready_.
  bool at_gate_ CUSPAN_GUARDED_BY(receiving_thread) = false;    // Is in its dependency's list.
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
  // A new stream; `blocking` ones keep order with the legacy stream.
  StreamQueue& AddStream(bool blocking) CUSPAN_REQUIRES(receiving_thread);
  // The stream takes no more ops and vanishes when its queue is empty.
  void Retire(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);

  // To be asked from now on, where one is given; outlives the queues.
  void SetWorkGate(WorkGate* dependency) CUSPAN_REQUIRES(receiving_thread) {
    work_gate_ = dependency;
  }
  // It may let through what it refused.
  void LetWork() CUSPAN_REQUIRES(receiving_thread);

  // The next op of `stream`: submitted now or later, once `dependency` (if any) is open.
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

  // The most ops that are handed over together.
  static constexpr std::size_t kMaxInBatch = 32;
  // Whether some ops only wait for others to make a batch.
  bool gathering() const CUSPAN_REQUIRES(receiving_thread) { return !gathering_.empty(); }
  // They wait no longer.
  void FlushGathered() CUSPAN_REQUIRES(receiving_thread);

  // The rest of the op that holds `stream` was submitted.
  void Release(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  // What the dependency stands for has happened. May be called inside Submit.
  void Open(Dependency& dependency) CUSPAN_REQUIRES(receiving_thread);

  // Nothing more is handed over in `stream` until Resume. Ops of other streams
  // that must come after its waiting ones wait, too.
  void Pause(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread) { stream.paused_ = true; }
  void Resume(StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread);
  // Nothing more is handed over, in any stream, until as many LetAll.
  void HoldAll() CUSPAN_REQUIRES(receiving_thread) { ++holds_; }
  void LetAll() CUSPAN_REQUIRES(receiving_thread);
  bool held() const CUSPAN_REQUIRES(receiving_thread) { return holds_ != 0; }

  // Calls `then` once all ops that were added before have been submitted or dropped.
  void WhenSubmitted(std::function<void()> then) CUSPAN_REQUIRES(receiving_thread);

  // The device is lost: drops all ops, and those that are added from now on.
  void DropAll() CUSPAN_REQUIRES(receiving_thread);

  // Whether nothing of `stream` waits here.
  static bool Empty(const StreamQueue& stream) CUSPAN_REQUIRES(receiving_thread) {
    return stream.ops_.empty();
  }
  // The same for a stream and all that it keeps order with.
  bool EmptyAround(const StreamQueue& stream) const CUSPAN_REQUIRES(receiving_thread);
  // All that waits: ops, and the memory that they take.
  std::size_t waiting_ops() const CUSPAN_REQUIRES(receiving_thread) { return waiting_ops_; }
  std::size_t waiting_bytes() const CUSPAN_REQUIRES(receiving_thread) { return waiting_bytes_; }
  // Those of them that hold their streams: a part of them has been handed over.
  std::size_t begun_ops() const CUSPAN_REQUIRES(receiving_thread);
  // How many that waited have been submitted or dropped.
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
  std::vector<StreamQueue*> busy_ CUSPAN_GUARDED_BY(receiving_thread);  // Those with ops.
  std::size_t busy_blocking_ CUSPAN_GUARDED_BY(receiving_thread) =
      0;                             // How many of them are blocking ones.
  std::vector<StreamQueue*> ready_;  // Those whose head may be able to go now.
  std::vector<StreamQueue*> retired_;
  std::vector<StreamQueue*> gathering_;  // Those whose ops wait for others to make a batch.
  std::vector<StreamOp*> batch_
      CUSPAN_GUARDED_BY(receiving_thread);  // The one that is being submitted.
  std::deque<Barrier> barriers_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t next_index_ CUSPAN_GUARDED_BY(receiving_thread) = 1;
  std::size_t waiting_ops_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::size_t waiting_bytes_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t taken_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t holds_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  WorkGate* work_gate_ CUSPAN_GUARDED_BY(receiving_thread) =
      nullptr;  // None where nobody shares the device.
  bool pumping_ CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool lost_ CUSPAN_GUARDED_BY(receiving_thread) = false;
};

}  // namespace cuspan::proxy
