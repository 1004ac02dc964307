// NCCL's communicators of this process: states reported by their proxies. NCCL itself runs there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/reductions.h"
#include "ops.gen.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {

class ContextConnection;

// Calls of the program ending a communicator. Threads: any.
class CommunicatorEnding {
 public:
  // Reserves ending it to the calling thread; other threads may not use it any more. False if
  // another thread has reserved it.
  bool Begin() { return !ending_.exchange(true); }
  bool begun() const { return ending_.load(); }
  // Reserves finalizing or revoking it to the calling thread. False if this has happened before.
  bool BeginFinalize() { return !finalizing_.exchange(true); }
  // Calls in streams are not allowed any more.
  void Revoke() { revoked_.store(true); }
  bool revoked() const { return revoked_.load(); }

 private:
  std::atomic<bool> ending_{false};
  std::atomic<bool> finalizing_{false};
  std::atomic<bool> revoked_{false};
};

// One rank of this process in a communicator. Threads: any.
class Communicator {
 public:
  // `family` is equal for ranks created together.
  Communicator(std::uint64_t number, std::uint64_t family, const ContextConnection& connection,
               bool blocking);

  const std::uint64_t number;  // Handle in the program and at the proxy.
  const std::uint64_t family;
  const std::uint64_t connection;  // ContextConnection::number() of the rank's context.
  const int device;
  const bool blocking;
  CommunicatorEnding end;
  Reductions reductions;

  // An ncclResult_t with an explanation.
  struct State {
    int result = nccl::kSuccess;
    std::string problem;
  };
  // Waits until it has been created, or creation has failed.
  State AwaitJoined();
  // Waits until it has been aborted or destroyed, or its device is lost.
  State AwaitEnded();
  // kInProgress while it is being created, or while an operation on it is in progress if it is
  // nonblocking.
  State Now() const;
  // State for ncclCommGetAsyncError. NCCL does not notice the loss of its own device; programs
  // learn of it from CUDA, and exit. Therefore the loss is reported here 5 s later, for programs
  // still running. PyTorch (2.11, ProcessGroupNCCL's watchdog) keeps a process alive for a minute
  // after an error of a communicator.
  State AsynchronousError() const;
  // 0 before it has been created.
  int size() const;
  int rank() const;
  // Counts an operation; nccl::Step::kFinalized reports its end.
  void Begin();
  // Waits for the end of all operations counted.
  State AwaitFinalized();
  // Counts the rest of this communicator's creation as an operation on `whole`, with its failure.
  void JoinFor(std::shared_ptr<Communicator> whole);

  void Notify(const CommunicatorNotice& notice);
  void Fail(int result, const std::string& problem);
  // Fails it because its own device is lost.
  void Lose(const std::string& problem);
  // Fail for a communicator not created yet.
  void FailJoining(int result, const std::string& problem);

  // Number for a communicator derived from it, equal on all its ranks.
  std::uint32_t NextPart();

 private:
  State NowLocked() const CUSPAN_REQUIRES(mutex_);

  // Wakes waiting threads. If the creation has ended, tells the whole of JoinFor, with the failure
  // unless the program has ended this communicator.
  void Changed();
  // Ends an operation of Begin.
  void EndOperation(const State& result);

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool joining_ CUSPAN_GUARDED_BY(mutex_) = true;
  // Waits for the creation (JoinFor).
  std::shared_ptr<Communicator> whole_ CUSPAN_GUARDED_BY(mutex_);
  bool ended_ CUSPAN_GUARDED_BY(mutex_) = false;
  unsigned under_way_ CUSPAN_GUARDED_BY(mutex_) = 0;  // Calls of Begin without kFinalized.
  State failure_ CUSPAN_GUARDED_BY(mutex_);           // The first failure.
  // Time from when AsynchronousError reports failure_.
  std::chrono::steady_clock::time_point report_from_ CUSPAN_GUARDED_BY(mutex_);
  int size_ CUSPAN_GUARDED_BY(mutex_) = 0;
  int rank_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::uint32_t parts_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

// All communicators of the process. Threads: any. Lives as long as the process.
class Communicators final : public ContextTable {
 public:
  std::shared_ptr<Communicator> Add(std::uint64_t family, const ContextConnection& connection,
                                    bool blocking);
  // Null for unknown numbers.
  std::shared_ptr<Communicator> Find(std::uint64_t number) const;
  void Remove(std::uint64_t number);
  std::size_t count() const;

  // Called by the receiving thread.
  void OnNotice(const ContextConnection& connection, const CommunicatorNotice& notice);
  // Removes the ranks of this context; ranks created with them fail.
  void Forget(const ContextConnection& ended) override;
  void Lost(const ContextConnection& lost) override;

 private:
  enum class End { kLost, kReset };
  // Fails the ranks of this context and those created with them.
  void FailAll(const ContextConnection& connection, End end, const char* problem);

  mutable SharedMutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Communicator>> communicators_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
