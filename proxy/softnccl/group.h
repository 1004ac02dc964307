// ncclGroupStart and ncclGroupEnd: what a thread calls between them is done together at the end.
//
// Threads: each has its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/softnccl/communicator.h"

namespace cuspan::softnccl {

// A communicator that has begun to join the others.
struct Joining {
  std::function<Outcome()> wait;  // kInProgress where nobody waits for it.
  std::function<void()> abandon;  // It is not to be, whether it has joined or not.
};

class CallGroup {
 public:
  // The calling thread's.
  static CallGroup& OfThisThread();

  void Start() { ++depth_; }
  // Of the outermost group: does what was noted. Returns what failed first, here or before; then
  // no communicator that began in the group is left.
  nccl::Result End();

  // Each now, or at the end of the group that has begun.
  nccl::Result Enqueue(const std::shared_ptr<Communicator>& communicator, const DeviceCall& call);
  nccl::Result Join(Joining joining);
  // Of a call that needs no group: keeps its sentence for ncclGetLastError. One that was refused
  // fails the group.
  nccl::Result Return(Outcome outcome);

  const std::string& problem() const { return problem_; }

 private:
  struct Calls {
    std::shared_ptr<Communicator> communicator;
    std::vector<DeviceCall> calls;
  };
  static Outcome AwaitAll(const std::vector<Joining>& joinings);

  int depth_ = 0;
  std::string problem_;  // Of what failed last.
  Outcome refused_;
  std::vector<Calls> calls_;  // By communicator, in the order of their first calls.
  std::vector<Joining> joinings_;
};

}  // namespace cuspan::softnccl
