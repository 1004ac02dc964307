#include "proxy/softnccl/nccl_api.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "proxy/softnccl/bootstrap.h"
#include "proxy/softnccl/communicator.h"
#include "proxy/softnccl/group.h"

namespace cuspan::softnccl {

struct Handle {
  std::shared_ptr<Communicator> communicator;
  std::string last_problem;  // As ncclGetLastError has told it.
};

namespace {

using nccl::Config;
using nccl::Result;
using nccl::UniqueId;

// What ncclGetVersion says: the release whose functions these are.
constexpr int kVersion = nccl::VersionCode(2, 28, 9);

// What failed in a call of this thread that had no communicator to say it.
thread_local std::string last_problem;

Result Refused(Result result, std::string why) {
  last_problem = std::move(why);
  return Group::OfThisThread().Refuse(result);
}

bool IsBlocking(const Config* config) {
  // Shorter ones, of releases before 2.14, end before that member.
  return config == nullptr || config->size < sizeof(Config) || config->blocking != 0;
}

bool IsConfig(const Config* config) {
  return config == nullptr || config->magic == nccl::kConfigMagic;
}

// Begins to join; waits until that is done, unless the configuration says otherwise.
Result Start(Handle** handle, int rank, int size, const Config* config, Communicator::Join join) {
  const cuspan::Result<Cuda> cuda = Cuda::Load();
  if (!cuda.ok()) return Refused(nccl::kSystemError, cuda.status().message());
  CUcontext context = nullptr;
  if (cuda->context_get(&context) != CUDA_SUCCESS || context == nullptr)
    return Refused(nccl::kUnhandledCudaError, "the calling thread has no CUDA context");
  const bool blocking = IsBlocking(config);
  auto made = std::make_unique<Handle>();
  made->communicator = Communicator::Start(*cuda, context, rank, size, std::move(join));
  const std::shared_ptr<Communicator> communicator = made->communicator;
  *handle = made.release();
  if (!blocking) return nccl::kInProgress;
  return Group::OfThisThread().Join([handle, communicator] {
    const Status status = communicator->AwaitJoined();
    if (status.ok()) return nccl::kSuccess;
    communicator->Retire();
    delete std::exchange(*handle, nullptr);
    last_problem = status.message();
    return communicator->AsyncError();
  });
}

Result Submit(Handle* handle, CallKind kind, const void* send, void* receive, std::size_t count,
              int type, int op, int root, CUstream stream) {
  if (handle == nullptr) return Refused(nccl::kInvalidArgument, "there is no communicator");
  DeviceCall call;
  call.call.kind = kind;
  call.call.count = count;
  call.call.type = static_cast<nccl::DataType>(type);
  call.call.root = root;
  call.op = op;
  call.send = reinterpret_cast<CUdeviceptr>(send);
  call.receive = reinterpret_cast<CUdeviceptr>(receive);
  call.stream = stream;
  return Group::OfThisThread().Enqueue(handle->communicator, call);
}

// What a rank tells the others of a communicator that is being split or shrunk.
struct Wish {
  std::int32_t color, key;
  Invitation invitation;
};

// A communicator of those of `ranks` that wish for the same colour, in the order of their keys.
Result Part(Handle* handle, const std::vector<int>& ranks, int color, int key, Handle** part,
            const Config* config) {
  cuspan::Result<Listener> opened = Listener::Open(handle->communicator->size());
  if (!opened.ok()) return Refused(nccl::kSystemError, opened.status().message());
  const auto listener = std::make_shared<Listener>(std::move(*opened));
  Communicator& parent = *handle->communicator;
  const Wish own{color, key, Invite(*listener)};
  std::vector<std::byte> bytes(sizeof(own));
  std::memcpy(bytes.data(), &own, sizeof(own));
  const auto told = parent.Tell(ranks, std::move(bytes));
  if (!told.ok()) return Refused(nccl::kRemoteError, told.status().message());
  *part = nullptr;
  if (color == nccl::kNoColor) return nccl::kSuccess;

  std::multimap<std::int32_t, std::pair<int, Invitation>> members;  // By key, then as they stood.
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Wish wish;
    std::memcpy(&wish, told->data() + i * sizeof(wish), sizeof(wish));
    if (wish.color == color) members.emplace(wish.key, std::pair{ranks[i], wish.invitation});
  }
  std::vector<Invitation> invitations;
  int rank = 0;
  for (const auto& [its_key, member] : members) {
    if (member.first == parent.rank()) rank = static_cast<int>(invitations.size());
    invitations.push_back(member.second);
  }
  const int size = static_cast<int>(invitations.size());
  return Start(part, rank, size, config,
               [listener, invitations, rank](std::shared_ptr<Interrupt> interrupt) {
                 return JoinInvited(*listener, invitations, rank, std::move(interrupt));
               });
}

}  // namespace
}  // namespace cuspan::softnccl

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
extern "C" {

using cuspan::nccl::Config;
using cuspan::nccl::Result;
using cuspan::nccl::UniqueId;
using cuspan::softnccl::CallKind;
using cuspan::softnccl::Handle;
namespace nccl = cuspan::nccl;
namespace softnccl = cuspan::softnccl;

Result ncclGetVersion(int* version) {
  if (version == nullptr) return nccl::kInvalidArgument;
  *version = softnccl::kVersion;
  return nccl::kSuccess;
}

const char* ncclGetErrorString(Result result) {
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
  if (handle == nullptr) return softnccl::last_problem.c_str();
  handle->last_problem = handle->communicator->Problem();
  return handle->last_problem.c_str();
}

Result ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return nccl::kInvalidArgument;
  const cuspan::Result<UniqueId> made = softnccl::MakeUniqueId();
  if (!made.ok()) return softnccl::Refused(nccl::kSystemError, made.status().message());
  *id = *made;
  return nccl::kSuccess;
}

Result ncclCommInitRankConfig(Handle** handle, int size, UniqueId id, int rank, Config* config) {
  if (handle == nullptr || size < 1 || size > softnccl::kMostRanks || rank < 0 || rank >= size ||
      !softnccl::IsConfig(config))
    return softnccl::Refused(nccl::kInvalidArgument, "a rank, their number or the configuration");
  return softnccl::Start(handle, rank, size, config,
                         [=](std::shared_ptr<softnccl::Interrupt> interrupt) {
                           return softnccl::JoinById(id, rank, size, std::move(interrupt));
                         });
}

Result ncclCommSplit(Handle* handle, int color, int key, Handle** part, Config* config) {
  if (handle == nullptr || part == nullptr || color < nccl::kNoColor || !softnccl::IsConfig(config))
    return softnccl::Refused(nccl::kInvalidArgument, "a communicator, a colour or a configuration");
  std::vector<int> ranks(static_cast<std::size_t>(handle->communicator->size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  return softnccl::Part(handle, ranks, color, key, part, config);
}

Result ncclCommShrink(Handle* handle, int* excluded, int count, Handle** part, Config* config,
                      int flags) {
  const int size = handle == nullptr ? 0 : handle->communicator->size();
  if (handle == nullptr || part == nullptr || excluded == nullptr || count < 1 || count >= size ||
      flags != 0 || !softnccl::IsConfig(config))
    return softnccl::Refused(nccl::kInvalidArgument,
                             "a communicator, the excluded ranks or a flag");
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (std::find(excluded, excluded + count, rank) == excluded + count) ranks.push_back(rank);
  if (std::find(ranks.begin(), ranks.end(), handle->communicator->rank()) == ranks.end())
    return softnccl::Refused(nccl::kInvalidUsage, "an excluded rank takes no part");
  return softnccl::Part(handle, ranks, 0, 0, part, config);
}

Result ncclCommFinalize(Handle* handle) {
  if (handle == nullptr) return nccl::kInvalidArgument;
  handle->communicator->Drain();
  return nccl::kSuccess;
}

Result ncclCommDestroy(Handle* handle) {
  if (handle == nullptr) return nccl::kSuccess;
  handle->communicator->Drain();
  handle->communicator->Retire();
  delete handle;
  return nccl::kSuccess;
}

Result ncclCommAbort(Handle* handle) {
  if (handle == nullptr) return nccl::kSuccess;
  handle->communicator->Abort();
  handle->communicator->Retire();
  delete handle;
  return nccl::kSuccess;
}

Result ncclCommGetAsyncError(Handle* handle, Result* error) {
  if (handle == nullptr || error == nullptr) return nccl::kInvalidArgument;
  *error = handle->communicator->AsyncError();
  return nccl::kSuccess;
}

Result ncclCommCount(const Handle* handle, int* count) {
  if (handle == nullptr || count == nullptr) return nccl::kInvalidArgument;
  *count = handle->communicator->size();
  return nccl::kSuccess;
}

Result ncclCommUserRank(const Handle* handle, int* rank) {
  if (handle == nullptr || rank == nullptr) return nccl::kInvalidArgument;
  *rank = handle->communicator->rank();
  return nccl::kSuccess;
}

Result ncclRedOpCreatePreMulSum(int* op, void* factor, int type, int residence, Handle* handle) {
  if (handle == nullptr) return nccl::kInvalidArgument;
  return handle->communicator->MakeFactor(static_cast<nccl::DataType>(type), factor,
                                          residence == nccl::kScalarDevice, op);
}

Result ncclRedOpDestroy(int op, Handle* handle) {
  if (handle == nullptr) return nccl::kInvalidArgument;
  return handle->communicator->ForgetFactor(op);
}

Result ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int op,
                     Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kAllReduce, send, receive, count, type, op, 0, stream);
}

Result ncclReduce(const void* send, void* receive, std::size_t count, int type, int op, int root,
                  Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kReduce, send, receive, count, type, op, root, stream);
}

Result ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root,
                     Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kBroadcast, send, receive, count, type, 0, root,
                          stream);
}

Result ncclAllGather(const void* send, void* receive, std::size_t count, int type, Handle* handle,
                     CUstream stream) {
  return softnccl::Submit(handle, CallKind::kAllGather, send, receive, count, type, 0, 0, stream);
}

Result ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int op,
                         Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kReduceScatter, send, receive, count, type, op, 0,
                          stream);
}

Result ncclAlltoAll(const void* send, void* receive, std::size_t count, int type, Handle* handle,
                    CUstream stream) {
  return softnccl::Submit(handle, CallKind::kAllToAll, send, receive, count, type, 0, 0, stream);
}

Result ncclGather(const void* send, void* receive, std::size_t count, int type, int root,
                  Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kGather, send, receive, count, type, 0, root, stream);
}

Result ncclScatter(const void* send, void* receive, std::size_t count, int type, int root,
                   Handle* handle, CUstream stream) {
  return softnccl::Submit(handle, CallKind::kScatter, send, receive, count, type, 0, root, stream);
}

Result ncclSend(const void* send, std::size_t count, int type, int peer, Handle* handle,
                CUstream stream) {
  return softnccl::Submit(handle, CallKind::kSend, send, nullptr, count, type, 0, peer, stream);
}

Result ncclRecv(void* receive, std::size_t count, int type, int peer, Handle* handle,
                CUstream stream) {
  return softnccl::Submit(handle, CallKind::kReceive, nullptr, receive, count, type, 0, peer,
                          stream);
}

Result ncclGroupStart() {
  softnccl::Group::OfThisThread().Start();
  return nccl::kSuccess;
}

Result ncclGroupEnd() { return softnccl::Group::OfThisThread().End(); }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
