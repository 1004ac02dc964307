// Communicators with a rank on this device, and the order of their operations.
//
// NCCL's calls wait for other ranks, so each communicator has a thread for them. Operations of a
// communicator are executed in the order of posting, in all streams: NCCL needs the same order at
// all ranks. A group of calls therefore waits in its stream's queue until earlier operations of all
// its communicators were passed to NCCL. Groups of one program thread are passed to NCCL by one
// thread of the proxy, in the order in which their streams reach them. As with native NCCL, a group
// waiting for other ranks blocks later groups of the same thread.
//
// Threads: the receiving thread, unless noted otherwise.
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

// A position in the order of one or more communicators.
struct CallPosition {
  std::size_t before = 0;       // Number of direct predecessors not over yet.
  std::function<void()> start;  // Called when `before` becomes 0.
  std::shared_ptr<Dependency>
      dependency;  // Set for a waiting group of calls; opened when it may begin.
  bool over = false;
  const StreamQueue* stream = nullptr;  // Stream of a group, or null.
  // Direct predecessors in the same stream, ordered only by its queue.
  std::vector<std::weak_ptr<CallPosition>> before_in_stream;
  std::vector<std::shared_ptr<CallPosition>> followers;
};

// Calls submitted together to a stream.
struct CallGroup {
  std::vector<CollectiveCall> calls;
  std::vector<std::shared_ptr<Communicator>> members;
  std::shared_ptr<CallPosition> position;
  bool begun = false;
};

class Collectives {
 public:
  // All references outlive it.
  Collectives(const Device& device, Channel& channel, Faults& faults, StreamQueues& queues,
              bool software);
  ~Collectives();
  Collectives(const Collectives&) = delete;

  // NCCL library of the node, loaded by the first call. Takes a second. Threads: any.
  const Result<std::unique_ptr<NcclLibrary>>& Library(const std::string& programs);

  // kInvalid for invalid ops. CommunicatorNotice reports the results. If another thread of the
  // program has ended the communicator, this is reported as the result.
  Status Join(const CommunicatorJoin& op);
  Status Split(const CommunicatorSplit& op);
  Status Shrink(const CommunicatorShrink& op);
  Status End(const CommunicatorEnd& op);
  Status AddFactor(const CommunicatorFactor& op);
  Status EndFactor(const CommunicatorFactorEnd& op);

  // Stores the first calls of a group too large for one frame.
  Status Keep(const CollectiveCalls& op);
  // Creates a group for `stream`, with its position in the order. Null if one of its communicators
  // has ended.
  Result<std::shared_ptr<CallGroup>> MakeGroup(const CollectiveGroup& op,
                                               const StreamQueue& stream);
  // Passes a group to NCCL: its stream has reached it. `thread` is the program's calling thread.
  // Progress calls `then` after this, unless the collectives are destroyed first.
  void Begin(std::shared_ptr<CallGroup> group, std::uint32_t thread, CUstream stream,
             std::function<void(int)> then);
  // Drops a group: it will not begin, or its result is not needed. Its successors in the
  // communicators' order still wait for its predecessors.
  void Drop(const std::shared_ptr<CallGroup>& group);

  // True if no thread works on a call, and Progress has nothing to do. Cheap.
  bool idle() const { return tasks_.under_way.load(std::memory_order_acquire) == 0 && !HasWork(); }
  // True if threads have finished tasks for Progress. Cheap; for Bell::Wait.
  bool HasWork() const { return tasks_.finished_count.load(std::memory_order_acquire) != 0; }
  void Progress();

 private:
  struct Entry {
    std::shared_ptr<Communicator> communicator;
    std::weak_ptr<CallPosition> last;  // Last position in its order.
  };
  // Returns null if it does not exist.
  Entry* Find(std::uint64_t number);
  Result<std::shared_ptr<Communicator>> Add(std::uint64_t number);
  // Returns the position after all earlier operations of these communicators. It does not wait for
  // a direct predecessor in the same stream.
  std::shared_ptr<CallPosition> NextPosition(const std::vector<Entry*>& entries,
                                             const StreamQueue* stream = nullptr);
  void Over(CallPosition& position);
  // Runs work() on the communicator's thread after all its earlier operations.
  void InOrder(Entry& entry, std::function<void()> work);
  // A thread making the calls of one program thread at a time.
  struct Caller {
    std::unique_ptr<CallThread> thread;
    std::uint32_t programs = 0;
    std::size_t under_way = 0;
  };
  Result<Caller*> CallerFor(std::uint32_t programs);
  // Threads: any.
  void Finish(std::function<void()> task);
  void Notify(const Communicator& communicator, nccl::Step step, const NcclOutcome& outcome);
  // Requires the device's context to be current.
  void NotifyFailure(std::uint64_t number, const NcclOutcome& outcome);
  void NotifyGone(std::uint64_t number, nccl::Step step);

  const Device& device_;
  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  const bool software_;
  Mutex library_mutex_;
  std::unique_ptr<Result<std::unique_ptr<NcclLibrary>>> library_ CUSPAN_GUARDED_BY(library_mutex_);
  std::map<std::uint64_t, std::vector<CollectiveCall>> kept_;  // Key: group.
  // Tasks of threads.
  struct Tasks {
    Mutex mutex;
    std::vector<std::function<void()>> finished CUSPAN_GUARDED_BY(mutex);
    std::atomic<std::size_t> finished_count{0};
    std::atomic<std::size_t> under_way{0};
  };
  Tasks tasks_;
  std::deque<std::function<void()>> reached_;  // turn() of reached positions, to be called.
  bool calling_reached_ = false;
  bool ending_ = false;
  // Destroyed first: their threads use the members above.
  std::map<std::uint64_t, Entry> communicators_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

}  // namespace cuspan::proxy
