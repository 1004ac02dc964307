#include "proxy/softnccl/group.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace cuspan::softnccl {

Group& Group::OfThisThread() {
  thread_local Group group;
  return group;
}

nccl::Result Group::End() {
  if (depth_ == 0) return nccl::kInvalidUsage;
  if (--depth_ > 0) return nccl::kSuccess;
  nccl::Result result = std::exchange(refused_, nccl::kSuccess);
  const auto joins = std::exchange(joins_, {});
  const auto calls = std::exchange(calls_, {});
  if (result != nccl::kSuccess) return result;
  std::vector<nccl::Result> results(joins.size(), nccl::kSuccess);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < joins.size(); ++i)
    threads.emplace_back([&, i] { results[i] = joins[i](); });
  for (std::thread& thread : threads) thread.join();
  for (const Calls& one : calls) results.push_back(one.communicator->Enqueue(one.calls));
  const auto failed = std::find_if(results.begin(), results.end(), [](nccl::Result one) {
    return one != nccl::kSuccess && one != nccl::kInProgress;
  });
  if (failed != results.end()) return *failed;
  const bool in_progress =
      std::find(results.begin(), results.end(), nccl::kInProgress) != results.end();
  return in_progress ? nccl::kInProgress : nccl::kSuccess;
}

nccl::Result Group::Enqueue(const std::shared_ptr<Communicator>& communicator,
                            const DeviceCall& call) {
  if (depth_ == 0) return communicator->Enqueue({call});
  auto of_it = std::find_if(calls_.begin(), calls_.end(),
                            [&](const Calls& calls) { return calls.communicator == communicator; });
  if (of_it == calls_.end()) of_it = calls_.insert(of_it, Calls{communicator, {}});
  of_it->calls.push_back(call);
  return nccl::kSuccess;
}

nccl::Result Group::Join(std::function<nccl::Result()> join) {
  if (depth_ == 0) return join();
  joins_.push_back(std::move(join));
  return nccl::kSuccess;
}

nccl::Result Group::Refuse(nccl::Result result) {
  if (depth_ > 0 && refused_ == nccl::kSuccess) refused_ = result;
  return result;
}

}  // namespace cuspan::softnccl
