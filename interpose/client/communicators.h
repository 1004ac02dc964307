// NCCL's communicators of this process: what their proxies have told of them. NCCL itself runs
// there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "ops.gen.h"
#include "protocol/nccl/nccl.h"

namespace cuspan {

class ContextConnection;

// One rank of this process in a communicator. Any thread.
class Communicator {
 public:
  // `family` is the same for ranks that were made together.
  Communicator(std::uint64_t number, std::uint64_t family, const ContextConnection& connection,
               bool blocking);

  const std::uint64_t number;  // The program's handle, and the proxy's.
  const std::uint64_t family;
  const std::uint64_t connection;  // Which life of a context has the rank.
  const int device;
  const bool blocking;

  // An ncclResult_t with words for it.
  struct State {
    int result = nccl::kSuccess;
    std::string problem;
  };
  // Waits until it has been made, or can not be.
  State AwaitJoined();
  // Until it has been aborted or destroyed, or its device is lost.
  State AwaitEnded();
  // kInProgress while it is made, or does what was asked of it.
  State Now() const;
  // The same, as ncclCommGetAsyncError tells it. NCCL does not notice that its own device is gone:
  // programs learn that from CUDA, and end. So of a device that is lost it is told 5 s later, to
  // those who have not noticed. PyTorch (2.11, ProcessGroupNCCL's watchdog) keeps a process whose
  // communicator tells it an error for a minute.
  State AsynchronousError() const;
  // Of one that was made; 0 before.
  int size() const;
  int rank() const;
  // What it has begun when this returns: nccl::Step::kFinalized will be told.
  void Begin();
  // Waits until that was.
  State AwaitFinalized();
  // The calling thread ends it: nobody else may ask anything of it. False where one has done so.
  bool BeginEnd() { return !ending_.exchange(true); }
  bool ending() const { return ending_.load(); }

  void Told(const CommunicatorNotice& told);
  void Fail(int result, const std::string& problem);
  // Its own device is lost.
  void Lose(const std::string& problem);
  // The same as Fail for one that has not joined yet.
  void FailJoining(int result, const std::string& problem);

  // Numbers for what is made of it, the same at all its ranks.
  std::uint32_t NextPart();
  // For ncclRedOpCreatePreMulSum; beyond NCCL's own.
  std::uint32_t NextOperation();
  // Graphs use the operation: it stays as long as the communicator.
  void Capture(std::uint32_t operation);
  bool IsCaptured(std::uint32_t operation) const;

 private:
  State NowLocked() const CUSPAN_REQUIRES(mutex_);

  std::atomic<bool> ending_{false};
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint32_t> captured_ CUSPAN_GUARDED_BY(mutex_);
  bool joining_ CUSPAN_GUARDED_BY(mutex_) = true;
  bool ended_ CUSPAN_GUARDED_BY(mutex_) = false;
  unsigned under_way_ CUSPAN_GUARDED_BY(mutex_) = 0;  // How often Begin was, and kFinalized not.
  State failure_ CUSPAN_GUARDED_BY(mutex_);           // The first.
  std::chrono::steady_clock::time_point told_from_ CUSPAN_GUARDED_BY(mutex_);  // failure_ is.
  int size_ CUSPAN_GUARDED_BY(mutex_) = 0;
  int rank_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::uint32_t parts_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::uint32_t operations_ CUSPAN_GUARDED_BY(mutex_) = nccl::kReduceOps;
};

// All of the process. Any thread; lives as long as the process.
class Communicators final : public ContextTable {
 public:
  std::shared_ptr<Communicator> Add(std::uint64_t family, const ContextConnection& connection,
                                    bool blocking);
  // Null for what is none.
  std::shared_ptr<Communicator> Find(std::uint64_t number) const;
  void Remove(std::uint64_t number);

  // By the thread that receives.
  void OnTold(const ContextConnection& connection, const CommunicatorNotice& told);
  // The ranks of that context are gone; those that were made with them fail.
  void Forget(const ContextConnection& ended) override;
  void Lost(const ContextConnection& lost) override;

 private:
  enum class End { kLost, kReset };
  // The ranks of that context, and those that were made with them.
  void FailAll(const ContextConnection& connection, End end, const char* problem);

  mutable SharedMutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Communicator>> communicators_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
