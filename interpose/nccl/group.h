// Group of calls between ncclGroupStart and the outermost ncclGroupEnd of a thread. At its end, all
// calls are submitted first. After that, blocking ones wait for other ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "interpose/calls/base/ways_in.h"
#include "interpose/client/communicators.h"
#include "protocol/nccl/nccl.h"

namespace cuspan::nccl {

// Threads: each has its own group. Results are NCCL's.
class Group {
 public:
  static Group& OfThisThread();

  void Start() { ++depth_; }
  // kInvalidUsage without a preceding Start. Only the outermost end reports the group's failure.
  int End(Session& session);
  // Ends a group. The outermost one drops its calls.
  int Forget();

  // Adds a call of a communicator in a stream. It is submitted at the end of the group, or at once
  // outside of groups.
  int Add(Session& session, const Communicator& communicator, const CollectiveCall& call,
          const StreamTarget& target);
  // Calls wait() at the end of the group, or at once outside of groups. If the group has failed,
  // calls give_up() instead, because other ranks may never arrive.
  int Await(std::function<int()> wait, std::function<void()> give_up);
  // Records a function's result for the group, and returns it.
  int Note(int result);

 private:
  struct Call {
    StreamTarget target;
    CollectiveCall call;
  };
  int Submit(Session& session);
  void Clear();

  unsigned depth_ = 0;
  int failure_ = kSuccess;  // First failure.
  std::vector<Call> calls_;
  struct Wait {
    std::function<int()> wait;
    std::function<void()> give_up;
  };
  std::vector<Wait> waits_;
};

}  // namespace cuspan::nccl
