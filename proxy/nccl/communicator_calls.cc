// Operations of a communicator in streams.
#include "proxy/nccl/communicator.h"

namespace cuspan::proxy {
namespace {

const void* Pointer(std::uint64_t address) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address));
}
void* MutablePointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

NcclOutcome Communicator::AddFactor(const CommunicatorFactor& wanted) {
  NcclCommunicator* const handle = handle_.load();
  if (handle == nullptr || aborted()) return {nccl::kInvalidUsage, "there is no communicator"};
  return Inside([&] {
    std::uint64_t value = wanted.value;
    void* const factor = wanted.on_device ? MutablePointer(wanted.value) : &value;
    int made = 0;
    const int result = library_->functions().ncclRedOpCreatePreMulSum(
        &made, factor, static_cast<int>(wanted.type),
        wanted.on_device ? nccl::kScalarDevice : nccl::kScalarHostImmediate, handle);
    if (result == nccl::kSuccess) operations_[wanted.operation] = made;
    return Outcome(result);
  });
}

NcclOutcome Communicator::EndFactor(std::uint32_t operation) {
  const auto known = operations_.find(operation);
  NcclCommunicator* const handle = handle_.load();
  if (known == operations_.end() || handle == nullptr || aborted()) return {};
  return Inside([&] {
    const int result = library_->functions().ncclRedOpDestroy(known->second, handle);
    operations_.erase(known);
    return Outcome(result);
  });
}

int Communicator::OperationOf(const CollectiveCall& call) const {
  const auto known = operations_.find(call.operation);
  return known != operations_.end() ? known->second : static_cast<int>(call.operation);
}

int Communicator::Call(const CollectiveCall& call, const Communicator& member,
                       CUstream stream) const {
  const NcclFunctions& functions = library_->functions();
  NcclCommunicator* const handle = member.handle_.load();
  if (handle == nullptr || member.aborted()) return nccl::kInvalidUsage;
  const void* const send = Pointer(call.send);
  void* const receive = MutablePointer(call.receive);
  const auto type = static_cast<int>(call.type);
  const auto peer = static_cast<int>(call.peer);
  switch (static_cast<nccl::CallKind>(call.kind)) {
    case nccl::CallKind::kAllReduce:
      return functions.ncclAllReduce(send, receive, call.count, type, member.OperationOf(call),
                                     handle, stream);
    case nccl::CallKind::kReduce:
      return functions.ncclReduce(send, receive, call.count, type, member.OperationOf(call), peer,
                                  handle, stream);
    case nccl::CallKind::kBroadcast:
      return functions.ncclBroadcast(send, receive, call.count, type, peer, handle, stream);
    case nccl::CallKind::kAllGather:
      return functions.ncclAllGather(send, receive, call.count, type, handle, stream);
    case nccl::CallKind::kReduceScatter:
      return functions.ncclReduceScatter(send, receive, call.count, type, member.OperationOf(call),
                                         handle, stream);
    case nccl::CallKind::kAllToAll:
      return functions.ncclAlltoAll == nullptr
                 ? nccl::kInvalidUsage
                 : functions.ncclAlltoAll(send, receive, call.count, type, handle, stream);
    case nccl::CallKind::kGather:
      return functions.ncclGather == nullptr
                 ? nccl::kInvalidUsage
                 : functions.ncclGather(send, receive, call.count, type, peer, handle, stream);
    case nccl::CallKind::kScatter:
      return functions.ncclScatter == nullptr
                 ? nccl::kInvalidUsage
                 : functions.ncclScatter(send, receive, call.count, type, peer, handle, stream);
    case nccl::CallKind::kSend:
      return functions.ncclSend(send, call.count, type, peer, handle, stream);
    case nccl::CallKind::kReceive:
      return functions.ncclRecv(receive, call.count, type, peer, handle, stream);
  }
  return nccl::kInvalidArgument;
}

NcclOutcome Communicator::Do(std::span<const CollectiveCall> calls,
                             std::span<const std::shared_ptr<Communicator>> members,
                             CUstream stream) {
  if (library_ == nullptr) return {nccl::kInvalidUsage, "there is no communicator"};
  NcclOutcome outcome;
  std::size_t entered = 0;
  for (; entered < members.size() && outcome.result == nccl::kSuccess; ++entered)
    outcome = members[entered]->Enter();
  const bool all = outcome.result == nccl::kSuccess;
  if (all) outcome = DoAll(calls, members, stream);
  for (std::size_t i = 0; i < (all ? entered : entered - 1); ++i) {
    if (all) members[i]->Mark(stream);
    members[i]->Leave();
  }
  return outcome;
}

// Records an event after the current work of the stream.
void Communicator::Mark(CUstream stream) {
  const Driver& driver = device_.driver();
  const MutexLock lock(work_);
  if (watched_ && done_ == nullptr) driver.cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING);
  if (done_ != nullptr) driver.cuEventRecord(done_, stream);
}

NcclOutcome Communicator::DoAll(std::span<const CollectiveCall> calls,
                                std::span<const std::shared_ptr<Communicator>> members,
                                CUstream stream) {
  const NcclFunctions& functions = library_->functions();
  const bool grouped = calls.size() != 1;
  int result = grouped ? functions.ncclGroupStart() : int{nccl::kSuccess};
  for (const CollectiveCall& call : calls) {
    if (result != nccl::kSuccess && result != nccl::kInProgress) break;
    for (const std::shared_ptr<Communicator>& member : members)
      if (member->number() == call.communicator) result = Call(call, *member, stream);
  }
  if (grouped) {
    const int ended = functions.ncclGroupEnd();
    if (result == nccl::kSuccess || result == nccl::kInProgress) result = ended;
  }
  if (result != nccl::kInProgress) return Outcome(result);
  NcclOutcome outcome;
  for (const std::shared_ptr<Communicator>& member : members) {
    NcclOutcome settled = member->Settle(nccl::kInProgress);
    if (outcome.result == nccl::kSuccess) outcome = std::move(settled);
  }
  return outcome;
}

}  // namespace cuspan::proxy
