// One rank of a communicator, with a thread for its NCCL calls: they wait for other ranks.
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

// Result of an NCCL operation.
struct NcclOutcome {
  int result = nccl::kSuccess;  // ncclResult_t.
  std::string problem;          // NCCL's error message, if any.
};

// Threads: functions under "The thread" are called by tasks of Run; other functions by any thread.
class Communicator {
 public:
  // failed() is called once, by a thread of this object. Reasons: NCCL reports an asynchronous
  // failure, or a rank needed for the work in progress is lost.
  using Failed = std::function<void(NcclOutcome)>;
  static Result<std::shared_ptr<Communicator>> Create(std::uint64_t number, const Device& device,
                                                      Failed failed);
  // Waits for the threads' current tasks.
  ~Communicator();
  Communicator(const Communicator&) = delete;

  std::uint64_t number() const { return number_; }
  // Runs `task` on the thread, after earlier tasks, with the device's context current.
  void Run(std::function<void()> task) { thread_->Run(std::move(task)); }

  // --- The thread.
  // Calls ncclCommInitRank…. `library` is used for all further calls. If it failed to load, this is
  // reported to the other ranks.
  NcclOutcome Join(const Result<std::unique_ptr<NcclLibrary>>& library,
                   const CommunicatorJoin& wanted);
  // Call ncclCommSplit and ncclCommShrink for this rank. If `part` is not null, it becomes the new
  // communicator.
  NcclOutcome Split(const CommunicatorSplit& wanted, Communicator* part);
  NcclOutcome Shrink(const CommunicatorShrink& wanted, Communicator* part);
  NcclOutcome Finalize();
  NcclOutcome Destroy();
  NcclOutcome AddFactor(const CommunicatorFactor& wanted);
  NcclOutcome EndFactor(std::uint32_t operation);
  // Values of ncclCommCount and ncclCommUserRank.
  int size() const { return size_; }
  int rank() const { return rank_; }

  // --- One thread at a time, any, with the device's context current.
  // Makes all calls as one group in the stream. `members` are the communicators of the calls,
  // including this one. Their threads must be idle.
  NcclOutcome Do(std::span<const CollectiveCall> calls,
                 std::span<const std::shared_ptr<Communicator>> members, CUstream stream);

  // --- Out of order: the thread may be waiting for other ranks. Call ncclCommAbort and
  // ncclCommRevoke on another thread, followed by then(outcome). Callers: one thread at a time.
  void Abort(std::function<void(NcclOutcome)> then);
  void Revoke(std::function<void(NcclOutcome)> then);
  bool aborted() const { return aborted_.load(); }

 private:
  Communicator(std::uint64_t number, const Device& device, Failed failed)
      : number_(number), device_(device), failed_(std::move(failed)) {}
  void LookForFailure();
  void ReportFailure(NcclOutcome outcome);
  // Subscribes to lost ranks of the group.
  void WatchRanks(std::shared_ptr<Watch> watch, const WatchGroup& group);
  void LeaveWatch();
  std::shared_ptr<Watch> OwnWatch();
  void OnLost(const std::string& problem);
  // True if NCCL calls or their work on the device are not complete.
  bool Busy() CUSPAN_REQUIRES(work_);
  // Enclose NCCL calls possibly waiting for other ranks. Enter returns an error if they are not
  // allowed any more.
  NcclOutcome Enter();
  void Leave();
  // Calls work(), unless Enter refuses. work() returns an NcclOutcome.
  template <typename Work>
  NcclOutcome Inside(Work&& work) {
    if (NcclOutcome refused = Enter(); refused.result != nccl::kSuccess) return refused;
    NcclOutcome outcome = work();
    Leave();
    return outcome;
  }
  // Waits for the completion of a nonblocking NCCL function.
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
  std::atomic<bool> founded_{false};  // Created by Join; does not share its watch.
  bool blocking_ = true;
  int size_ = 0;
  int rank_ = 0;
  std::uint64_t parts_ = 0;           // Number of splits and shrinks.
  NcclCommunicator* made_ = nullptr;  // Last part, written by NCCL.
  std::atomic<bool> failure_reported_{false};
  std::map<std::uint32_t, int> operations_;  // Client's number to NCCL's number.
  // Held while NCCL is asked for the communicator's state, so it is not freed meanwhile.
  Mutex asking_;

  // Protects the state of current work. Not held during NCCL calls.
  Mutex work_;
  std::condition_variable left_;
  bool watched_ CUSPAN_GUARDED_BY(work_) = false;
  // Number of calls between Enter and Leave.
  int calling_ CUSPAN_GUARDED_BY(work_) = 0;
  Communicator* making_ CUSPAN_GUARDED_BY(work_) = nullptr;  // Part being created by NCCL.
  CUevent done_ CUSPAN_GUARDED_BY(work_) = nullptr;          // After the last work; null before.
  std::string lost_ CUSPAN_GUARDED_BY(work_);                // Problem of a lost rank.

  Mutex watch_mutex_;
  std::shared_ptr<Watch> watch_ CUSPAN_GUARDED_BY(watch_mutex_);
  std::uint64_t listens_ CUSPAN_GUARDED_BY(watch_mutex_) = 0;
  WatchGroup group_;  // Owner: the thread.

  std::unique_ptr<CallThread> thread_;
  std::vector<std::thread> overtaking_;  // Owner: the caller of Abort, Revoke.
};

}  // namespace cuspan::proxy
