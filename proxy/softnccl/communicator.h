// One rank of a communicator. Its own thread executes the groups of calls one after the other. All
// ranks must enqueue them in the same order.
//
// A call is work in its stream. The stream waits until the thread has received the bytes of the
// other ranks (staging.h). The thread polls the streams many times a millisecond.
//
// Threads: any, unless noted otherwise.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "protocol/nccl/nccl.h"
#include "proxy/softnccl/collectives.h"
#include "proxy/softnccl/cuda.h"
#include "proxy/softnccl/mesh.h"
#include "proxy/softnccl/staging.h"

namespace cuspan::softnccl {

// A call with the program's buffers. `op` may come from MakeFactor.
struct DeviceCall {
  Call call;
  int op = nccl::kSum;
  CUdeviceptr send = 0, receive = 0;
  CUstream stream = nullptr;
};

// Result of an NCCL function, with an error message (empty on success).
struct Outcome {
  nccl::Result result = nccl::kSuccess;
  std::string problem;
  bool ok() const { return result == nccl::kSuccess; }
};

class Communicator {
 public:
  // Connects a rank to its mesh. Called once, by the communicator's thread.
  using Join = std::function<Result<Mesh>(std::shared_ptr<net::Interrupt>)>;
  // Answers of the ranks asked, in their order.
  using Answers = Result<std::vector<std::byte>>;

  // Starts a rank working in this context. Its thread begins by joining the others. kExhausted if
  // no thread or descriptor is left for it.
  static Result<std::shared_ptr<Communicator>> Start(const Cuda& cuda, CUcontext context,
                                                     Join join);

  const Cuda& cuda() const { return cuda_; }
  CUcontext context() const { return context_; }
  // Known once joined. Before, rank() is -1 and size() is 0.
  int rank() const;
  int size() const;

  // Blocks until it has joined, or has failed to.
  Outcome AwaitJoined();
  // kInProgress until joined. Later the first failure of any call, or kSuccess.
  nccl::Result AsyncError() const;
  // Message of this failure; empty without one.
  std::string Problem() const;

  // Submits a group of calls to their streams. kSuccess does not include the other ranks.
  Outcome Enqueue(const std::vector<DeviceCall>& calls);

  // Creates an operation: multiply this rank's elements by a factor, then sum. `factor` points to
  // an element of `type`. Host memory is read now, device memory by each call.
  Outcome MakeFactor(nccl::DataType type, const void* factor, bool on_device, int* op);
  Outcome ForgetFactor(int op);

  // Exchanges `own` with `ranks` on the communicator's thread, after all earlier calls. All ranks
  // pass the same list, including themselves.
  std::future<Answers> Ask(std::vector<int> ranks, std::vector<std::byte> own);

  // Blocks until all calls have ended, in their streams too.
  void Drain();
  // Fails all calls waiting for other ranks, now and later.
  void Abort();
  // Ends the thread once all calls have ended. Called once, last.
  void Retire();

 private:
  struct Factor {
    nccl::DataType type = nccl::kInt8;
    std::byte value[sizeof(std::uint64_t)] = {};
    CUdeviceptr place = 0;  // 0: `value` is used.
  };
  // Calls of a group in one stream.
  struct Batch {
    CUstream stream;
    std::vector<Movement> movements;
    std::unique_ptr<Staging> staging;
  };
  struct Staged {
    DeviceCall call;
    std::size_t batch, movement;  // Indices of its buffers.
  };
  // Calls executed together. A question (Ask) has no calls.
  struct Group {
    std::vector<Staged> calls;
    std::vector<Batch> batches;  // One per stream.
    std::function<Status(Mesh&)> question;
    std::function<void(const Status&)> refuse;  // Fails a question after an error.
    bool submitted = false;                     // True if all is in the streams.

    bool Reached() const;
    bool Passed() const;
    HostCall HostCallOf(const Staged& staged) const;
  };

  Communicator(const Cuda& cuda, CUcontext context, std::shared_ptr<net::Interrupt> interrupt)
      : cuda_(cuda), context_(context), interrupt_(std::move(interrupt)) {}

  Outcome Check(const DeviceCall& call) const CUSPAN_REQUIRES(mutex_);
  // Returns a group of these calls; null if the driver refuses its memory.
  std::unique_ptr<Group> Stage(const std::vector<DeviceCall>& calls);
  void Push(std::unique_ptr<Group> group);
  void Loop(Join join);
  // Removes and returns a group passed by all its streams; null if none.
  std::unique_ptr<Group> ExtractPassed() CUSPAN_REQUIRES(mutex_);
  // Returns the first in the queue, if all its streams have reached it; else null.
  Group* Next() CUSPAN_REQUIRES(mutex_);
  // Executes a group, or fails it after an earlier failure. Releases its streams.
  void Do(Result<Mesh>& mesh, Group& group);
  Status RunGroup(Mesh& mesh, Group& group);
  void Fail(nccl::Result result, const std::string& problem);

  const Cuda cuda_;
  const CUcontext context_;
  const std::shared_ptr<net::Interrupt> interrupt_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool joined_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Written before joined_, constant afterwards.
  int rank_ = -1, size_ = 0;
  bool retired_ CUSPAN_GUARDED_BY(mutex_) = false;
  nccl::Result failure_ CUSPAN_GUARDED_BY(mutex_) = nccl::kSuccess;
  std::string problem_ CUSPAN_GUARDED_BY(mutex_);
  std::map<int, Factor> factors_ CUSPAN_GUARDED_BY(mutex_);
  int next_factor_ CUSPAN_GUARDED_BY(mutex_) = nccl::kReduceOps;
  std::deque<std::unique_ptr<Group>> queue_ CUSPAN_GUARDED_BY(mutex_);
  // Executed groups not yet passed by all their streams.
  std::deque<std::unique_ptr<Group>> passing_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::softnccl
