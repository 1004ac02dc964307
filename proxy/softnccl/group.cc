#include "proxy/softnccl/group.h"

#include <algorithm>
#include <utility>

namespace cuspan::softnccl {

CallGroup& CallGroup::OfThisThread() {
  thread_local CallGroup group;
  return group;
}

// Returns the first failure; without one, kInProgress if any is in progress.
Outcome CallGroup::AwaitAll(const std::vector<Joining>& joinings) {
  Outcome all;
  for (const Joining& joining : joinings) {
    Outcome one = joining.wait();
    const bool is_worse = all.ok() || (all.result == nccl::kInProgress && !one.ok());
    if (is_worse) all = std::move(one);
  }
  return all;
}

nccl::Result CallGroup::End() {
  if (depth_ == 0) return Return({nccl::kInvalidUsage, "ncclGroupEnd without ncclGroupStart"});
  if (--depth_ > 0) return nccl::kSuccess;
  Outcome outcome = std::exchange(refused_, {});
  const auto joinings = std::exchange(joinings_, {});
  const auto calls = std::exchange(calls_, {});
  // All have started already, so none waits for a later one.
  if (outcome.ok()) outcome = AwaitAll(joinings);
  if (!outcome.ok() && outcome.result != nccl::kInProgress) {
    for (const Joining& joining : joinings) joining.abandon();
    return Return(std::move(outcome));
  }
  for (const Calls& one : calls) {
    Outcome enqueued = one.communicator->Enqueue(one.calls);
    if (!enqueued.ok() && (outcome.ok() || outcome.result == nccl::kInProgress))
      outcome = std::move(enqueued);
  }
  return Return(std::move(outcome));
}

nccl::Result CallGroup::Enqueue(const std::shared_ptr<Communicator>& communicator,
                                const DeviceCall& call) {
  if (depth_ == 0) return Return(communicator->Enqueue({call}));
  auto of_it = std::find_if(calls_.begin(), calls_.end(),
                            [&](const Calls& calls) { return calls.communicator == communicator; });
  if (of_it == calls_.end()) of_it = calls_.insert(of_it, Calls{communicator, {}});
  of_it->calls.push_back(call);
  return nccl::kSuccess;
}

nccl::Result CallGroup::Join(Joining joining) {
  joinings_.push_back(std::move(joining));
  if (depth_ > 0) return nccl::kSuccess;
  Start();
  return End();
}

nccl::Result CallGroup::Return(Outcome outcome) {
  const nccl::Result result = outcome.result;
  if (result == nccl::kSuccess || result == nccl::kInProgress) return result;
  problem_ = outcome.problem;
  if (depth_ > 0 && refused_.ok()) refused_ = std::move(outcome);
  return result;
}

}  // namespace cuspan::softnccl
