// What a thread has begun with ncclGroupStart: its calls are kept until the outermost ncclGroupEnd,
// and those that wait for other ranks wait there, when all have begun.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "interpose/calls/ways_in.h"
#include "interpose/client/communicators.h"
#include "protocol/nccl/nccl.h"

namespace cuspan::nccl {

// Of one thread. Results are NCCL's.
class Group {
 public:
  static Group& OfThisThread();

  void Start() { ++depth_; }
  // kInvalidUsage without a Start.
  int End(Session& session);
  // The outermost one ends without doing what it was asked.
  int Forget();

  // A call of a communicator's in a stream: submitted at the end, or at once outside of groups.
  int Add(Session& session, const Communicator& communicator, const CollectiveCall& call,
          const StreamTarget& target);
  // What a function waits for: at the end, or at once outside of groups. give_up() is called
  // instead where the group has failed: others may never come.
  int Await(std::function<int()> wait, std::function<void()> give_up);
  // The result of a function in a group; returns it.
  int Note(int result);

 private:
  struct Call {
    StreamTarget target;
    CollectiveCall call;
  };
  int Submit(Session& session);
  void Clear();

  unsigned depth_ = 0;
  int failure_ = kSuccess;  // The first.
  std::vector<Call> calls_;
  struct Wait {
    std::function<int()> wait;
    std::function<void()> give_up;
  };
  std::vector<Wait> waits_;
};

}  // namespace cuspan::nccl
