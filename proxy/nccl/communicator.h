// One rank of a communicator, with the thread that makes NCCL's calls for it: they wait for other
// ranks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "ops.gen.h"
#include "protocol/channel/bell.h"
#include "proxy/gpu/device.h"
#include "proxy/nccl/library.h"
#include "proxy/nccl/watch.h"

namespace cuspan::proxy {

// What became of something that was asked of NCCL.
struct NcclOutcome {
  int result = nccl::kSuccess;  // ncclResult_t.
  std::string problem;          // In words, where NCCL has some.
};

// Functions that are said to be the thread's are called by tasks of Run; the others by any thread.
class Communicator {
 public:
  // failed() is called by a thread of this, once, when NCCL says that the communicator has failed
  // by itself, or when a rank is lost without which it can not do what it was given.
  using Failed = std::function<void(NcclOutcome)>;
  static Result<std::shared_ptr<Communicator>> Create(std::uint64_t number, const Device& device,
                                                      Failed failed);
  // Waits for what the threads do now.
  ~Communicator();
  Communicator(const Communicator&) = delete;

  std::uint64_t number() const { return number_; }
  // Has the thread do it, behind what it was given before. The device's context is current to it.
  void Run(std::function<void()> task);

  // --- The thread's.
  // As ncclCommInitRank…; `library` is the one for all further calls.
  NcclOutcome Join(const NcclLibrary& library, const CommunicatorJoin& wanted);
  // As ncclCommSplit and ncclCommShrink, which this rank takes part in; *part becomes the new
  // communicator's, if it is not null.
  NcclOutcome Split(const CommunicatorSplit& wanted, Communicator* part);
  NcclOutcome Shrink(const CommunicatorShrink& wanted, Communicator* part);
  NcclOutcome Finalize();
  NcclOutcome Destroy();
  NcclOutcome AddFactor(const CommunicatorFactor& wanted);
  NcclOutcome EndFactor(std::uint32_t operation);
  // ncclCommCount and ncclCommUserRank.
  int size() const { return size_; }
  int rank() const { return rank_; }
  // Does all calls as one group in the stream; `members` are the communicators that they name, this
  // one among them, whose threads do nothing meanwhile.
  NcclOutcome Do(std::span<const CollectiveCall> calls,
                 std::span<const std::shared_ptr<Communicator>> members, CUstream stream);

  // --- What overtakes the thread, which may be waiting for other ranks: ncclCommAbort and
  // ncclCommRevoke, by another thread, which calls then(outcome). One at a time.
  void Abort(std::function<void(NcclOutcome)> then);
  void Revoke(std::function<void(NcclOutcome)> then);
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  Communicator(std::uint64_t number, const Device& device, Bell bell, Failed failed);
  void Loop(const Device& device);
  // The next task; empty when there is none for now, or at the end.
  std::function<void()> Next();
  void LookForFailure();
  void SayFailed(NcclOutcome outcome);
  // Has the watch say who is lost, other than those that the communicator does without.
  void WatchRanks(std::shared_ptr<Watch> watch, std::set<int> without);
  void OnLost(int rank, const std::string& problem);
  std::shared_ptr<Watch> OwnWatch();
  std::set<int> Without(const std::vector<std::int32_t>& excluded);
  // Whether the device has not done all that NCCL was given. With `work_`.
  bool Busy() CUSPAN_REQUIRES(work_);
  // Waits until NCCL has done what a function that does not block has begun.
  NcclOutcome Settle(int result);
  NcclOutcome Outcome(int result) const;
  NcclOutcome Adopt(int result);
  void BeginCalls();
  void EndCalls(CUstream stream);
  NcclOutcome DoAll(std::span<const CollectiveCall> calls,
                    std::span<const std::shared_ptr<Communicator>> members, CUstream stream);
  int Call(const CollectiveCall& call, const Communicator& member, CUstream stream) const;
  int OperationOf(const CollectiveCall& call) const;
  void Overtake(std::function<void()> task);

  const std::uint64_t number_;
  const Device& device_;
  const Failed failed_;
  const NcclLibrary* library_ = nullptr;
  std::atomic<NcclCommunicator*> handle_{nullptr};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> founded_{false};  // By Join: the watch is its own, not shared by another.
  bool blocking_ = true;
  int size_ = 0;
  int rank_ = 0;
  std::atomic<bool> told_failure_{false};
  std::map<std::uint32_t, int> operations_;  // NCCL's, by the client's numbers.
  // Held while NCCL is asked how the communicator is: it is not to be freed meanwhile.
  Mutex asking_;

  // What is under way. Not held while NCCL is called.
  Mutex work_;
  bool watched_ CUSPAN_GUARDED_BY(work_) = false;
  bool calling_ CUSPAN_GUARDED_BY(work_) = false;
  CUevent done_ CUSPAN_GUARDED_BY(work_) = nullptr;  // Behind the last of it, if there was any.
  std::string lost_ CUSPAN_GUARDED_BY(work_);        // What happened to a rank.
  std::set<int> without_ CUSPAN_GUARDED_BY(work_);   // Ranks that are not missed.

  Mutex watch_mutex_;
  std::shared_ptr<Watch> watch_ CUSPAN_GUARDED_BY(watch_mutex_);
  std::uint64_t listens_ CUSPAN_GUARDED_BY(watch_mutex_) = 0;

  Bell bell_;  // Wakes the thread.
  Mutex mutex_;
  std::deque<std::function<void()>> tasks_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<std::size_t> waiting_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
  std::thread overtaking_;
};

}  // namespace cuspan::proxy
