// One rank of a communicator: what its streams have reached is done by a thread of its own, one
// group of calls after the other, as all ranks name them.
//
// A call is work of its stream, which waits in its course until the thread has the other ranks'
// bytes (staging.h). The thread looks at what it waits for many times a millisecond.
//
// Threads: any, but for functions that say otherwise.
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

// A call with the program's buffers. `op` may be one that the communicator made.
struct DeviceCall {
  Call call;
  int op = nccl::kSum;
  CUdeviceptr send = 0, receive = 0;
  CUstream stream = nullptr;
};

// What a function of NCCL returns, and the sentence to it; none when all is well.
struct Outcome {
  nccl::Result result = nccl::kSuccess;
  std::string problem;
  bool ok() const { return result == nccl::kSuccess; }
};

class Communicator {
 public:
  // How a rank comes to its mesh; called once, by the communicator's thread.
  using Join = std::function<Result<Mesh>(std::shared_ptr<net::Interrupt>)>;
  // What each of some ranks said, in their order.
  using Answers = Result<std::vector<std::byte>>;

  // A rank whose work is for this context. Its thread begins by joining the others.
  // kExhausted where there is no thread or descriptor for it.
  static Result<std::shared_ptr<Communicator>> Start(const Cuda& cuda, CUcontext context,
                                                     Join join);

  const Cuda& cuda() const { return cuda_; }
  CUcontext context() const { return context_; }
  // Known when it has joined; before, size() is 0.
  int rank() const;
  int size() const;

  // Until it has joined, or has failed to.
  Outcome AwaitJoined();
  // kInProgress until then; later what failed first, of any call, or success.
  nccl::Result AsyncError() const;
  // The sentence to that; empty while all is well.
  std::string Problem() const;

  // Puts a group of calls into their streams; kSuccess says nothing of the other ranks.
  Outcome Enqueue(const std::vector<DeviceCall>& calls);

  // An operation that multiplies what this rank gives by a factor, and sums: `factor` is an element
  // of that type, in memory of the host, which is read now, or of the device, read by each call.
  Outcome MakeFactor(nccl::DataType type, const void* factor, bool on_device, int* op);
  Outcome ForgetFactor(int op);

  // Has the thread tell `own` to `ranks` (this one among them, the same list at all), after the
  // calls before it.
  std::future<Answers> Ask(std::vector<int> ranks, std::vector<std::byte> own);

  // Until all calls have ended, in their streams too.
  void Drain();
  // Ends what waits for other ranks, now and later, with failures.
  void Abort();
  // The thread ends when all has; to be called once, last.
  void Retire();

 private:
  struct Factor {
    nccl::DataType type = nccl::kInt8;
    std::byte value[sizeof(std::uint64_t)] = {};
    CUdeviceptr place = 0;  // 0: `value` is it.
  };
  // What a group does in one stream.
  struct Batch {
    CUstream stream;
    std::vector<Movement> movements;
    std::unique_ptr<Staging> staging;
  };
  struct Staged {
    DeviceCall call;
    std::size_t batch, movement;  // Where its bytes are.
  };
  // What is done at once. A question (Ask) has no calls.
  struct Group {
    std::vector<Staged> calls;
    std::vector<Batch> batches;  // By stream.
    std::function<Status(Mesh&)> question;
    std::function<void(const Status&)> refuse;  // Of a question that nobody can be asked any more.
    bool submitted = false;                     // All is in the streams.

    bool Reached() const;
    bool Passed() const;
    HostCall HostCallOf(const Staged& staged) const;
  };

  Communicator(const Cuda& cuda, CUcontext context, std::shared_ptr<net::Interrupt> interrupt)
      : cuda_(cuda), context_(context), interrupt_(std::move(interrupt)) {}

  Outcome Check(const DeviceCall& call) const CUSPAN_REQUIRES(mutex_);
  // A group of these calls; null where the driver refuses the memory for it.
  std::unique_ptr<Group> Stage(const std::vector<DeviceCall>& calls);
  void Push(std::unique_ptr<Group> group);
  void Loop(Join join);
  // A group that all streams are past, to be forgotten; or null.
  std::unique_ptr<Group> TakePassed() CUSPAN_REQUIRES(mutex_);
  // The first in the queue, if all streams have come to it; else null.
  Group* Next() CUSPAN_REQUIRES(mutex_);
  // Does or, after a failure, refuses what a group is for, and lets its streams go on.
  void Do(Result<Mesh>& mesh, Group& group);
  Status RunGroup(Mesh& mesh, Group& group);
  void Fail(nccl::Result result, const std::string& problem);

  const Cuda cuda_;
  const CUcontext context_;
  const std::shared_ptr<net::Interrupt> interrupt_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool joined_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Written before joined_, and not any more after.
  int rank_ = -1, size_ = 0;
  bool retired_ CUSPAN_GUARDED_BY(mutex_) = false;
  nccl::Result failure_ CUSPAN_GUARDED_BY(mutex_) = nccl::kSuccess;
  std::string problem_ CUSPAN_GUARDED_BY(mutex_);
  std::map<int, Factor> factors_ CUSPAN_GUARDED_BY(mutex_);
  int next_factor_ CUSPAN_GUARDED_BY(mutex_) = nccl::kReduceOps;
  std::deque<std::unique_ptr<Group>> queue_ CUSPAN_GUARDED_BY(mutex_);
  // Those whose streams are not past them.
  std::deque<std::unique_ptr<Group>> passing_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::softnccl
