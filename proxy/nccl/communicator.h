// One rank of a communicator, with the thread that makes NCCL's calls for it: they wait for other
// ranks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "ops.gen.h"
#include "proxy/gpu/device.h"
#include "proxy/nccl/call_thread.h"
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
  void Run(std::function<void()> task) { thread_->Run(std::move(task)); }

  // --- The thread's.
  // As ncclCommInitRank…; `library` is the one for all further calls, or why there is none: the
  // other ranks hear of that.
  NcclOutcome Join(const Result<std::unique_ptr<NcclLibrary>>& library,
                   const CommunicatorJoin& wanted);
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

  // --- Of one thread at a time, whichever it is, with the device's context current: does all calls
  // as one group in the stream. `members` are the communicators that they name, this one among
  // them, whose threads do nothing meanwhile.
  NcclOutcome Do(std::span<const CollectiveCall> calls,
                 std::span<const std::shared_ptr<Communicator>> members, CUstream stream);

  // --- What overtakes the thread, which may be waiting for other ranks: ncclCommAbort and
  // ncclCommRevoke, by another thread, which calls then(outcome). One at a time.
  void Abort(std::function<void(NcclOutcome)> then);
  void Revoke(std::function<void(NcclOutcome)> then);
  bool aborted() const { return aborted_.load(); }

 private:
  Communicator(std::uint64_t number, const Device& device, Failed failed)
      : number_(number), device_(device), failed_(std::move(failed)) {}
  void LookForFailure();
  void SayFailed(NcclOutcome outcome);
  // Has the watch say who of the group is lost.
  void WatchRanks(std::shared_ptr<Watch> watch, const WatchGroup& group);
  void LeaveWatch();
  std::shared_ptr<Watch> OwnWatch();
  void OnLost(const std::string& problem);
  // Whether the device has not done all that NCCL was given.
  bool Busy() CUSPAN_REQUIRES(work_);
  // Around calls of NCCL that may wait for other ranks. Enter says why there must be none.
  NcclOutcome Enter();
  void Leave();
  // work() → NcclOutcome, unless it can not be done any more.
  template <typename Work>
  NcclOutcome Inside(Work&& work) {
    if (NcclOutcome refused = Enter(); refused.result != nccl::kSuccess) return refused;
    NcclOutcome outcome = work();
    Leave();
    return outcome;
  }
  // Waits until NCCL has done what a function that does not block has begun.
  NcclOutcome Settle(int result);
  NcclOutcome Outcome(int result) const;
  NcclOutcome Adopt(NcclCommunicator* handle, int result);
  NcclOutcome Meet(const Result<std::unique_ptr<NcclLibrary>>& library,
                   const CommunicatorJoin& wanted);
  template <typename Function>
  NcclOutcome MakePart(Communicator* part, int color, bool by_all, bool inherit,
                       const CommunicatorSettings& settings, Function&& make);
  template <typename Function>
  NcclOutcome Make(Function&& make, nccl::Config* config, Communicator* part);
  void Mark(CUstream stream);
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
  std::uint64_t parts_ = 0;           // That were made of it.
  NcclCommunicator* made_ = nullptr;  // The last of them, where NCCL puts it.
  std::atomic<bool> told_failure_{false};
  std::map<std::uint32_t, int> operations_;  // NCCL's, by the client's numbers.
  // Held while NCCL is asked how the communicator is: it is not to be freed meanwhile.
  Mutex asking_;

  // What is under way. Not held while NCCL is called.
  Mutex work_;
  std::condition_variable left_;
  bool watched_ CUSPAN_GUARDED_BY(work_) = false;
  int calling_ CUSPAN_GUARDED_BY(work_) = 0;                 // Between Enter and Leave.
  Communicator* making_ CUSPAN_GUARDED_BY(work_) = nullptr;  // A part, while NCCL makes it.
  CUevent done_ CUSPAN_GUARDED_BY(work_) = nullptr;  // Behind the last of it, if there was any.
  std::string lost_ CUSPAN_GUARDED_BY(work_);        // What happened to a rank.

  Mutex watch_mutex_;
  std::shared_ptr<Watch> watch_ CUSPAN_GUARDED_BY(watch_mutex_);
  std::uint64_t listens_ CUSPAN_GUARDED_BY(watch_mutex_) = 0;
  WatchGroup group_;  // The thread's.

  std::unique_ptr<CallThread> thread_;
  std::vector<std::thread> overtaking_;  // Of who calls Abort and Revoke.
};

}  // namespace cuspan::proxy
