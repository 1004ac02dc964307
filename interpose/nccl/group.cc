#include "interpose/nccl/group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "interpose/calls/collective.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/nccl/entry.h"

namespace cuspan {

struct CollectiveThread {
  nccl::Group group;
};

}  // namespace cuspan

namespace cuspan::nccl {

Group& Group::OfThisThread() {
  std::shared_ptr<CollectiveThread>& thread = ThisThread().collectives;
  if (thread == nullptr) thread = std::make_shared<CollectiveThread>();
  return thread->group;
}

int Group::Note(int result) {
  const bool failed = result != kSuccess && result != kInProgress;
  if (depth_ != 0 && failed && failure_ == kSuccess) failure_ = result;
  return result;
}

void Group::Clear() {
  calls_.clear();
  waits_.clear();
  failure_ = kSuccess;
}

int Group::Add(Session& session, const Communicator& communicator, const CollectiveCall& call,
               const StreamTarget& target) {
  if (const Communicator::State now = communicator.Now(); now.result != kSuccess)
    return now.result == kInProgress ? RefuseUnready() : ResultOf(now);
  calls_.push_back({target, call});
  return depth_ == 0 ? Submit(session) : int{kSuccess};
}

int Group::Await(std::function<int()> wait, std::function<void()> give_up) {
  if (depth_ == 0) return wait();
  waits_.push_back({std::move(wait), std::move(give_up)});
  return kSuccess;
}

int Group::Submit(Session& session) {
  // Groups the calls by context, in order of their first call. Each proxy gets its ranks' calls
  // before the client waits for any of them.
  std::vector<std::uint64_t> connections;
  std::map<std::uint64_t, std::pair<std::vector<StreamTarget>, std::vector<CollectiveCall>>> parts;
  for (Call& one : calls_) {
    const std::uint64_t connection = one.target.connection->number();
    auto& [streams, calls] = parts[connection];
    if (calls.empty()) connections.push_back(connection);
    const bool known = std::any_of(streams.begin(), streams.end(), [&](const StreamTarget& stream) {
      return stream.stream == one.target.stream;
    });
    if (!known) streams.push_back(one.target);
    calls.push_back(one.call);
  }
  calls_.clear();
  for (const std::uint64_t connection : connections) {
    auto& [streams, calls] = parts[connection];
    const Error error = SubmitCollectives(session, streams, std::move(calls));
    if (error.failed()) return ResultOf(error);
  }
  return kSuccess;
}

int Group::End(Session& session) {
  if (depth_ == 0) return Refuse(kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ != 0) return kSuccess;
  int result = failure_;
  if (result == kSuccess && !calls_.empty()) result = Submit(session);
  for (const Wait& one : std::exchange(waits_, {})) {
    if (result != kSuccess && result != kInProgress) {
      one.give_up();
      continue;
    }
    const int waited = one.wait();
    if (result == kSuccess || (result == kInProgress && waited != kSuccess)) result = waited;
  }
  Clear();
  return result;
}

int Group::Forget() {
  if (depth_ == 0) return Refuse(kInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
  if (--depth_ == 0) Clear();
  return kSuccess;
}

}  // namespace cuspan::nccl
