// ncclGroupStart and ncclGroupEnd: what a thread calls between them is done together at the end.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "proxy/softnccl/communicator.h"

namespace cuspan::softnccl {

// The calling thread's group.
class Group {
 public:
  static Group& OfThisThread();

  void Start() { ++depth_; }
  // Of the outermost group: does what was noted. Returns what failed first, here or before.
  nccl::Result End();

  // Now, or at the end of the group that has begun. Joining runs on a thread of its own when it is
  // one of several, as one may wait for another.
  nccl::Result Enqueue(const std::shared_ptr<Communicator>& communicator, const DeviceCall& call);
  nccl::Result Join(std::function<nccl::Result()> join);
  // A call of the group that was refused at once: the group fails.
  nccl::Result Refuse(nccl::Result result);

 private:
  struct Calls {
    std::shared_ptr<Communicator> communicator;
    std::vector<DeviceCall> calls;
  };

  int depth_ = 0;
  nccl::Result refused_ = nccl::kSuccess;
  std::vector<Calls> calls_;  // By communicator, in the order of their first calls.
  std::vector<std::function<nccl::Result()>> joins_;
};

}  // namespace cuspan::softnccl
