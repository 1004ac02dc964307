// ncclGroupStart and ncclGroupEnd. Calls of a thread between them are executed together at the end.
//
// Threads: each has its own group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/softnccl/communicator.h"

namespace cuspan::softnccl {

// A communicator joining the others.
struct Joining {
  std::function<Outcome()> wait;  // kInProgress if non-blocking.
  std::function<void()> abandon;  // Aborts it, joined or not.
};

class CallGroup {
 public:
  // Returns the calling thread's group.
  static CallGroup& OfThisThread();

  void Start() { ++depth_; }
  // Executes the recorded calls at the end of the outermost group. Returns the first failure. If a
  // recorded call or a join failed, aborts all communicators of the group.
  nccl::Result End();

  // Executes it now, or at the end of the open group.
  nccl::Result Enqueue(const std::shared_ptr<Communicator>& communicator, const DeviceCall& call);
  nccl::Result Join(Joining joining);
  // Returns the result, and keeps its message for ncclGetLastError. A failure inside a group fails
  // the group.
  nccl::Result Return(Outcome outcome);

  const std::string& problem() const { return problem_; }

 private:
  struct Calls {
    std::shared_ptr<Communicator> communicator;
    std::vector<DeviceCall> calls;
  };
  static Outcome AwaitAll(const std::vector<Joining>& joinings);

  int depth_ = 0;
  std::string problem_;  // Message of the last failure.
  Outcome refused_;
  std::vector<Calls> calls_;  // One per communicator, in the order of their first calls.
  std::vector<Joining> joinings_;
};

}  // namespace cuspan::softnccl
