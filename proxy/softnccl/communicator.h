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
#include <map>
#include <memory>
#include <string>
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

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // How a rank comes to its mesh; called once, by the communicator's thread.
  using Join = std::function<Result<Mesh>(std::shared_ptr<Interrupt>)>;

  // A rank of `size`, whose work is for the context that is current to the caller. Its thread
  // begins by joining; what is asked before that has ended waits.
  static std::shared_ptr<Communicator> Start(const Cuda& cuda, CUcontext context, int rank,
                                             int size, Join join);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Until it has joined, or has failed to.
  Status AwaitJoined();
  // kInProgress until then; later what failed first, of any call, or success.
  nccl::Result AsyncError() const;
  // The sentence to that; empty while all is well.
  std::string Problem() const;

  // Puts a group of calls into their streams; kSuccess says nothing of the other ranks.
  nccl::Result Enqueue(const std::vector<DeviceCall>& calls);

  // An operation that multiplies what this rank gives by a factor, and sums: `factor` is an element
  // of that type, in memory of the host, which is read now, or of the device, read by each call.
  nccl::Result MakeFactor(nccl::DataType type, const void* factor, bool on_device, int* op);
  nccl::Result ForgetFactor(int op);

  // What each of `ranks` (this one among them, the same list at all) says, in their order. Comes
  // after the calls before it.
  Result<std::vector<std::byte>> Tell(const std::vector<int>& ranks, std::vector<std::byte> own);

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
  // What is done at once. A question (Tell) has no calls.
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

  Communicator(const Cuda& cuda, CUcontext context, int rank, int size)
      : cuda_(cuda), context_(context), rank_(rank), size_(size) {}

  nccl::Result Check(const DeviceCall& call) const CUSPAN_REQUIRES(mutex_);
  // A group of these calls; null where the driver refuses the memory for it.
  std::unique_ptr<Group> Stage(const std::vector<DeviceCall>& calls);
  void Push(std::unique_ptr<Group> group);
  void Loop(const Join& join);
  // Forgets a group that all streams are past; whether there was one.
  bool ForgetPassed() CUSPAN_REQUIRES(mutex_);
  // The first in the queue, if all streams have come to it; else null.
  Group* Next() CUSPAN_REQUIRES(mutex_);
  // Does or, after a failure, refuses what a group is for, and lets its streams go on.
  void Do(Result<Mesh>& mesh, Group& group);
  Status RunGroup(Mesh& mesh, Group& group);
  void Fail(nccl::Result result, const std::string& problem);

  const Cuda cuda_;
  const CUcontext context_;
  const int rank_, size_;
  const std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool joined_ CUSPAN_GUARDED_BY(mutex_) = false;
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
