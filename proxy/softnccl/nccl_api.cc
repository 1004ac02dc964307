#include "proxy/softnccl/nccl_api.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proxy/softnccl/bootstrap.h"
#include "proxy/softnccl/communicator.h"
#include "proxy/softnccl/group.h"

namespace cuspan::softnccl {

struct Handle {
  std::shared_ptr<Communicator> communicator;
  bool blocking = true;
  std::string last_problem;  // Result of ncclGetLastError.
};

namespace {

using nccl::Config;
using nccl::UniqueId;

// Result of ncclGetVersion: the release of these functions.
constexpr int kVersion = nccl::VersionCode(2, 28, 9);

nccl::Result Refuse(nccl::Result result, std::string why) {
  return CallGroup::OfThisThread().Return({result, std::move(why)});
}

Outcome NoCommunicator() { return {nccl::kInvalidArgument, "there is no communicator"}; }

// True if functions are to block; `otherwise` if the configuration does not specify it.
bool IsBlocking(const Config* config, bool otherwise) {
  // Shorter ones, of releases before 2.14, do not have this member.
  if (config == nullptr || config->size < offsetof(Config, blocking) + sizeof(config->blocking) ||
      config->blocking == nccl::kUndefined)
    return otherwise;
  return config->blocking != 0;
}

bool IsConfig(const Config* config) {
  return config == nullptr || config->magic == nccl::kConfigMagic;
}

nccl::Result RefuseConfig() {
  return Refuse(nccl::kInvalidArgument,
                "the configuration was not made by NCCL_CONFIG_INITIALIZER");
}

// Starts joining; if `blocking`, waits for its end. *handle is null after a failure.
nccl::Result Start(const Cuda& cuda, CUcontext context, bool blocking, Communicator::Join join,
                   Handle** handle) {
  *handle = nullptr;
  cuspan::Result<std::shared_ptr<Communicator>> started =
      Communicator::Start(cuda, context, std::move(join));
  if (!started.ok()) return Refuse(nccl::kSystemError, started.status().message());
  const std::shared_ptr<Communicator> communicator = *started;
  *handle = new Handle{communicator, blocking, {}};
  return CallGroup::OfThisThread().Join({[communicator, blocking]() -> Outcome {
                                           if (!blocking) return {nccl::kInProgress, ""};
                                           return communicator->AwaitJoined();
                                         },
                                         [communicator, handle] {
                                           communicator->Abort();
                                           communicator->Retire();
                                           delete std::exchange(*handle, nullptr);
                                         }});
}

nccl::Result Submit(Handle* handle, CallKind kind, const void* send, void* receive,
                    std::size_t count, int type, int op, int root, CUstream stream) {
  if (handle == nullptr) return CallGroup::OfThisThread().Return(NoCommunicator());
  DeviceCall call;
  call.call.kind = kind;
  call.call.count = count;
  call.call.type = static_cast<nccl::DataType>(type);
  call.call.root = root;
  call.op = op;
  call.send = reinterpret_cast<CUdeviceptr>(send);
  call.receive = reinterpret_cast<CUdeviceptr>(receive);
  call.stream = stream;
  return CallGroup::OfThisThread().Enqueue(handle->communicator, call);
}

// Values exchanged by the ranks of a communicator being split or shrunk.
struct SplitRequest {
  std::int32_t color, key;
  Invitation invitation;
};

// Members of a new communicator: the ranks of one colour, in the order of their keys. `own`: index
// of this rank among them.
struct Members {
  std::vector<Invitation> invitations;
  int own = 0;
};
Members MembersOf(const std::vector<std::byte>& told, const std::vector<int>& ranks, int color,
                  int parent_rank) {
  std::multimap<std::int32_t, std::pair<int, Invitation>> by_key;  // Equal keys keep their order.
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    SplitRequest request;
    std::memcpy(&request, told.data() + i * sizeof(request), sizeof(request));
    if (request.color == color)
      by_key.emplace(request.key, std::pair{ranks[i], request.invitation});
  }
  Members members;
  for (const auto& [key, member] : by_key) {
    if (member.first == parent_rank) members.own = static_cast<int>(members.invitations.size());
    members.invitations.push_back(member.second);
  }
  return members;
}

// Creates a communicator of those of `ranks` with the same colour, in the order of their keys.
nccl::Result Part(Handle* handle, const std::vector<int>& ranks, int color, int key, Handle** part,
                  const Config* config) {
  *part = nullptr;
  Communicator& parent = *handle->communicator;
  cuspan::Result<net::Listener> opened = net::Listener::Open(parent.size());
  // A rank unable to listen also notifies the others, without an address.
  const SplitRequest own{color, key, opened.ok() ? Invite(*opened) : Invitation()};
  std::vector<std::byte> bytes(sizeof(own));
  std::memcpy(bytes.data(), &own, sizeof(own));
  std::shared_future<Communicator::Answers> told = parent.Ask(ranks, std::move(bytes)).share();
  if (!opened.ok()) return Refuse(nccl::kSystemError, opened.status().message());
  if (color == nccl::kNoColor) return nccl::kSuccess;
  return Start(
      parent.cuda(), parent.context(), IsBlocking(config, handle->blocking),
      [told, ranks, color, parent_rank = parent.rank(),
       listener = std::make_shared<net::Listener>(std::move(*opened))](
          std::shared_ptr<net::Interrupt> interrupt) -> cuspan::Result<Mesh> {
        const Communicator::Answers& answers = told.get();
        if (!answers.ok()) return answers.status();
        const Members members = MembersOf(*answers, ranks, color, parent_rank);
        return JoinInvited(*listener, members.invitations, members.own, std::move(interrupt));
      },
      part);
}

}  // namespace
}  // namespace cuspan::softnccl

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
extern "C" {

using cuspan::nccl::Config;
using cuspan::nccl::UniqueId;
using cuspan::softnccl::CallKind;
using cuspan::softnccl::Handle;
namespace nccl = cuspan::nccl;
namespace softnccl = cuspan::softnccl;

nccl::Result ncclGetVersion(int* version) {
  if (version == nullptr) return nccl::kInvalidArgument;
  *version = softnccl::kVersion;
  return nccl::kSuccess;
}

const char* ncclGetErrorString(nccl::Result result) {
  switch (result) {
    case nccl::kSuccess:
      return "no error";
    case nccl::kUnhandledCudaError:
      return "unhandled cuda error";
    case nccl::kSystemError:
      return "unhandled system error";
    case nccl::kInternalError:
      return "internal error";
    case nccl::kInvalidArgument:
      return "invalid argument";
    case nccl::kInvalidUsage:
      return "invalid usage";
    case nccl::kRemoteError:
      return "remote process exited or there was a network error";
    case nccl::kInProgress:
      return "in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(Handle* handle) {
  if (handle == nullptr) return softnccl::CallGroup::OfThisThread().problem().c_str();
  handle->last_problem = handle->communicator->Problem();
  // If the communicator has not failed, returns the failure of this thread.
  return handle->last_problem.empty() ? ncclGetLastError(nullptr) : handle->last_problem.c_str();
}

nccl::Result ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr)
    return softnccl::Refuse(nccl::kInvalidArgument, "the pointer to the id is null");
  const cuspan::Result<UniqueId> made = softnccl::MakeUniqueId();
  if (!made.ok()) return softnccl::Refuse(nccl::kSystemError, made.status().message());
  *id = *made;
  return nccl::kSuccess;
}

nccl::Result ncclCommInitRankConfig(Handle** handle, int size, UniqueId id, int rank,
                                    Config* config) {
  if (handle == nullptr)
    return softnccl::Refuse(nccl::kInvalidArgument, "the pointer to the communicator is null");
  if (size < 1 || size > softnccl::kMaxRanks || rank < 0 || rank >= size)
    return softnccl::Refuse(nccl::kInvalidArgument,
                            cuspan::Format("no rank {} in a communicator of {}", rank, size));
  if (!softnccl::IsConfig(config)) return softnccl::RefuseConfig();
  const cuspan::Result<softnccl::Cuda> cuda = softnccl::Cuda::Load();
  if (!cuda.ok()) return softnccl::Refuse(nccl::kSystemError, cuda.status().message());
  CUcontext context = nullptr;
  if (cuda->context_get(&context) != CUDA_SUCCESS || context == nullptr)
    return softnccl::Refuse(nccl::kUnhandledCudaError, "the calling thread has no CUDA context");
  return softnccl::Start(
      *cuda, context, softnccl::IsBlocking(config, true),
      [=](std::shared_ptr<cuspan::net::Interrupt> interrupt) {
        return softnccl::JoinById(id, rank, size, std::move(interrupt));
      },
      handle);
}

nccl::Result ncclCommSplit(Handle* handle, int color, int key, Handle** part, Config* config) {
  if (handle == nullptr || part == nullptr)
    return softnccl::CallGroup::OfThisThread().Return(softnccl::NoCommunicator());
  if (color < nccl::kNoColor)
    return softnccl::Refuse(nccl::kInvalidArgument, cuspan::Format("invalid color {}", color));
  if (!softnccl::IsConfig(config)) return softnccl::RefuseConfig();
  const int size = handle->communicator->size();
  if (size == 0)
    return softnccl::Refuse(nccl::kInvalidUsage, "not all ranks of the communicator have joined");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return softnccl::Part(handle, ranks, color, key, part, config);
}

nccl::Result ncclCommShrink(Handle* handle, int* excluded, int count, Handle** part, Config* config,
                            int flags) {
  if (handle == nullptr || part == nullptr || excluded == nullptr)
    return softnccl::CallGroup::OfThisThread().Return(softnccl::NoCommunicator());
  if (!softnccl::IsConfig(config)) return softnccl::RefuseConfig();
  if (flags != 0)
    return softnccl::Refuse(nccl::kInvalidUsage,
                            cuspan::Format("shrinking with flags {:#x} is not supported", flags));
  const int size = handle->communicator->size();
  const std::set<int> without(excluded, excluded + std::max(count, 0));
  for (const int rank : without)
    if (rank < 0 || rank >= size)
      return softnccl::Refuse(nccl::kInvalidArgument,
                              cuspan::Format("there is no rank {} to exclude", rank));
  if (without.empty() || without.contains(handle->communicator->rank()))
    return softnccl::Refuse(
        nccl::kInvalidUsage,
        "name at least one rank to exclude; excluded ranks do not call ncclCommShrink");
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (!without.contains(rank)) ranks.push_back(rank);
  return softnccl::Part(handle, ranks, 0, 0, part, config);
}

nccl::Result ncclCommFinalize(Handle* handle) {
  if (handle == nullptr)
    return softnccl::CallGroup::OfThisThread().Return(softnccl::NoCommunicator());
  handle->communicator->Drain();
  return nccl::kSuccess;
}

nccl::Result ncclCommDestroy(Handle* handle) {
  if (handle == nullptr) return nccl::kSuccess;
  handle->communicator->Drain();
  handle->communicator->Retire();
  delete handle;
  return nccl::kSuccess;
}

nccl::Result ncclCommAbort(Handle* handle) {
  if (handle == nullptr) return nccl::kSuccess;
  handle->communicator->Abort();
  handle->communicator->Retire();
  delete handle;
  return nccl::kSuccess;
}

nccl::Result ncclCommGetAsyncError(Handle* handle, nccl::Result* error) {
  if (handle == nullptr || error == nullptr) return nccl::kInvalidArgument;
  *error = handle->communicator->AsyncError();
  return nccl::kSuccess;
}

nccl::Result ncclCommCount(const Handle* handle, int* count) {
  if (handle == nullptr || count == nullptr)
    return softnccl::CallGroup::OfThisThread().Return(softnccl::NoCommunicator());
  *count = handle->communicator->size();
  return *count > 0 ? nccl::kSuccess : handle->communicator->AsyncError();
}

nccl::Result ncclCommUserRank(const Handle* handle, int* rank) {
  if (handle == nullptr || rank == nullptr)
    return softnccl::CallGroup::OfThisThread().Return(softnccl::NoCommunicator());
  *rank = handle->communicator->rank();
  return *rank >= 0 ? nccl::kSuccess : handle->communicator->AsyncError();
}

nccl::Result ncclRedOpCreatePreMulSum(int* op, void* factor, int type, int residence,
                                      Handle* handle) {
  softnccl::CallGroup& group = softnccl::CallGroup::OfThisThread();
  if (handle == nullptr) return group.Return(softnccl::NoCommunicator());
  return group.Return(handle->communicator->MakeFactor(static_cast<nccl::DataType>(type), factor,
                                                       residence == nccl::kScalarDevice, op));
}

nccl::Result ncclRedOpDestroy(int op, Handle* handle) {
  softnccl::CallGroup& group = softnccl::CallGroup::OfThisThread();
  return group.Return(handle == nullptr ? softnccl::NoCommunicator()
                                        : handle->communicator->ForgetFactor(op));
}

nccl::Result ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int op,
                           Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kAllReduce, send, receive, count, type, op, 0, stream);
}

nccl::Result ncclReduce(const void* send, void* receive, std::size_t count, int type, int op,
                        int root, Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kReduce, send, receive, count, type, op, root, stream);
}

nccl::Result ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root,
                           Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kBroadcast, send, receive, count, type, 0, root,
                          stream);
}

nccl::Result ncclAllGather(const void* send, void* receive, std::size_t count, int type,
                           Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kAllGather, send, receive, count, type, 0, 0, stream);
}

nccl::Result ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int op,
                               Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kReduceScatter, send, receive, count, type, op, 0,
                          stream);
}

nccl::Result ncclAlltoAll(const void* send, void* receive, std::size_t count, int type,
                          Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kAllToAll, send, receive, count, type, 0, 0, stream);
}

nccl::Result ncclGather(const void* send, void* receive, std::size_t count, int type, int root,
                        Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kGather, send, receive, count, type, 0, root, stream);
}

nccl::Result ncclScatter(const void* send, void* receive, std::size_t count, int type, int root,
                         Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kScatter, send, receive, count, type, 0, root, stream);
}

nccl::Result ncclSend(const void* send, std::size_t count, int type, int peer, Handle* handle,
                      CUstream stream) {
  return softnccl::Submit(handle, CallKind::kSend, send, nullptr, count, type, 0, peer, stream);
}

nccl::Result ncclRecv(void* receive, std::size_t count, int type, int peer, Handle* handle,
                      CUstream stream) {
  return softnccl::Submit(handle, CallKind::kReceive, nullptr, receive, count, type, 0, peer,
                          stream);
}

nccl::Result ncclGroupStart() {
  softnccl::CallGroup::OfThisThread().Start();
  return nccl::kSuccess;
}

nccl::Result ncclGroupEnd() { return softnccl::CallGroup::OfThisThread().End(); }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
