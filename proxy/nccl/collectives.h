// The communicators that have a rank on this device, and the order of what they do.
//
// NCCL's calls wait for other ranks, so each communicator has a thread for them. What the client
// posts for a communicator is done in the order in which it was posted, as all ranks must have it,
// whatever streams it goes into: a group of calls waits in its stream's queue until what came
// before it, for each of its communicators, has been handed to NCCL. Groups that one thread of the
// program has made are handed to NCCL by one thread here, in the order in which their streams come
// to them: as natively, one of them that waits for other ranks keeps those behind it waiting.
//
// Threads: the receiving thread, where nothing else is said.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "ops.gen.h"
#include "protocol/channel/channel.h"
#include "proxy/gpu/device.h"
#include "proxy/nccl/communicator.h"
#include "proxy/nccl/library.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/queues.h"

namespace cuspan::proxy {

// A place in the order of one communicator, or of several.
struct CallPosition {
  std::size_t before = 0;      // How many of those that come right before it are not over.
  std::function<void()> turn;  // Called when none is.
  std::shared_ptr<Dependency> dependency;  // Of a group of calls that may not begin yet: open then.
  bool over = false;
  const StreamQueue* stream = nullptr;  // In whose order it is besides.
  // Those right before it that only the stream's order keeps there.
  std::vector<std::weak_ptr<CallPosition>> before_in_stream;
  std::vector<std::shared_ptr<CallPosition>> behind;
};

// Calls that go into a stream together.
struct CallGroup {
  std::vector<CollectiveCall> calls;
  std::vector<std::shared_ptr<Communicator>> members;
  std::shared_ptr<CallPosition> place;
  bool begun = false;
};

class Collectives {
 public:
  // All outlive it.
  Collectives(const Device& device, Channel& channel, Faults& faults, StreamQueues& queues,
              bool software);
  ~Collectives();
  Collectives(const Collectives&) = delete;

  // The node's library, loaded by the first who needs it. Any thread; takes a second.
  const Result<std::unique_ptr<NcclLibrary>>& Library(const std::string& programs);

  // kInvalid for what no client sends. What becomes of it is told by CommunicatorNotice. What is
  // asked of a communicator that another thread of the program has ended is refused so.
  Status Join(const CommunicatorJoin& op);
  Status Split(const CommunicatorSplit& op);
  Status Shrink(const CommunicatorShrink& op);
  Status End(const CommunicatorEnd& op);
  Status AddFactor(const CommunicatorFactor& op);
  Status EndFactor(const CommunicatorFactorEnd& op);

  // The first calls of a group that is more than a frame.
  Status Keep(const CollectiveCalls& op);
  // A group, for that stream, with its place in the order. Null: one of its communicators has
  // ended.
  Result<std::shared_ptr<CallGroup>> MakeGroup(const CollectiveGroup& op,
                                               const StreamQueue& stream);
  // Its turn in the stream has come: hands it to NCCL. `thread` is the program's that has made it.
  // `then` is called by Progress when that has been done, unless the collectives end first.
  void Begin(std::shared_ptr<CallGroup> group, std::uint32_t thread, CUstream stream,
             std::function<void(int)> then);
  // It will not be begun, or nobody wants to know what becomes of it. What comes behind it in its
  // communicators' order still waits for what comes before.
  void Drop(const std::shared_ptr<CallGroup>& group);

  // Whether threads have done something. Cheap; for Bell::Wait.
  bool HasWork() const { return finished_count_.load(std::memory_order_acquire) != 0; }
  void Progress();

 private:
  struct Entry {
    std::shared_ptr<Communicator> communicator;
    std::weak_ptr<CallPosition> last;  // In its order.
  };
  // Null when there is none.
  Entry* Find(std::uint64_t number);
  Result<std::shared_ptr<Communicator>> Add(std::uint64_t number);
  // The place behind all that was posted for these. What comes right before it in its own stream is
  // not waited for here.
  std::shared_ptr<CallPosition> NextPlace(const std::vector<Entry*>& entries,
                                          const StreamQueue* stream = nullptr);
  void Over(CallPosition& place);
  // Has the communicator's thread do work() → NcclOutcome when all that was posted for it before is
  // over; then(outcome) is called by that thread.
  void InOrder(Entry& entry, std::function<void()> work);
  // A thread that makes the calls of one thread of the program at a time.
  struct Caller {
    std::unique_ptr<CallThread> thread;
    std::uint32_t programs = 0;
    std::size_t under_way = 0;
  };
  Result<Caller*> CallerFor(std::uint32_t programs);
  // Any thread.
  void Finish(std::function<void()> task);
  void Tell(const Communicator& communicator, nccl::Step step, const NcclOutcome& outcome);
  // The device's context is current.
  void TellFailure(std::uint64_t number, const NcclOutcome& outcome);
  void TellGone(std::uint64_t number, nccl::Step step);

  const Device& device_;
  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  const bool software_;
  Mutex library_mutex_;
  std::unique_ptr<Result<std::unique_ptr<NcclLibrary>>> library_ CUSPAN_GUARDED_BY(library_mutex_);
  std::map<std::uint64_t, std::vector<CollectiveCall>> kept_;  // By group.
  Mutex finished_mutex_;
  std::vector<std::function<void()>> finished_ CUSPAN_GUARDED_BY(finished_mutex_);
  std::atomic<std::size_t> finished_count_{0};
  std::atomic<std::size_t> under_way_{0};    // What threads were given and have not finished.
  std::deque<std::function<void()>> turns_;  // Of places that have come, to be called.
  bool taking_turns_ = false;
  bool ending_ = false;
  // These end first: their threads use what is above.
  std::map<std::uint64_t, Entry> communicators_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

}  // namespace cuspan::proxy
