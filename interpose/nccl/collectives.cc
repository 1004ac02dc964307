// Collectives, sends and receives in streams, and reductions defined by programs.
#include <cstring>

#include "interpose/nccl/entry.h"

namespace cuspan::nccl {
namespace {

bool HasPeer(CallKind kind) {
  switch (kind) {
    case CallKind::kReduce:
    case CallKind::kBroadcast:
    case CallKind::kGather:
    case CallKind::kScatter:
    case CallKind::kSend:
    case CallKind::kReceive:
      return true;
    default:
      return false;
  }
}

// Arguments of a call, except the communicator and the stream.
struct Arguments {
  CallKind kind;
  const void* send;
  void* receive;
  std::size_t count;
  int type;
  int operation = kSum;
  int peer = 0;
};

int Do(const ncclComm* handle, void* stream, const Arguments& arguments) {
  return AnswerOnDevice(
      handle,
      [&](Session& session, const std::shared_ptr<Communicator>& communicator,
          const std::shared_ptr<ContextConnection>& connection) -> int {
        const char* const name = NameOf(arguments.kind);
        if (communicator->end.revoked())
          return Refuse(kInvalidUsage, Format("{}: the communicator was revoked", name));
        if (arguments.type < 0 || arguments.type >= kDataTypes)
          return Refuse(kInvalidArgument, Format("{}: no data type {}", name, arguments.type));
        if (!communicator->reductions.Has(arguments.operation, arguments.type))
          return Refuse(kInvalidArgument, Format("{}: no operation {} on data type {}", name,
                                                 arguments.operation, arguments.type));
        if (HasPeer(arguments.kind) &&
            (arguments.peer < 0 || arguments.peer >= communicator->size()))
          return Refuse(kInvalidArgument, Format("{}: no rank {} in a communicator of {}", name,
                                                 arguments.peer, communicator->size()));
        StreamTarget target;
        const Error error = session.streams().ResolveOn(connection, stream, &target);
        if (error.failed()) return ResultOf(error);
        if (target.connection != connection)
          return Refuse(kInvalidUsage,
                        Format("{}: the stream is not on the communicator's device", name));
        CollectiveCall call;
        call.kind = static_cast<std::uint32_t>(arguments.kind);
        call.communicator = communicator->number;
        call.send = NumberOf(arguments.send);
        call.receive = NumberOf(arguments.receive);
        call.count = arguments.count;
        call.type = static_cast<std::uint32_t>(arguments.type);
        call.operation = static_cast<std::uint32_t>(arguments.operation);
        call.peer = static_cast<std::uint32_t>(arguments.peer);
        return Group::OfThisThread().Add(session, *communicator, call, target);
      });
}

}  // namespace
}  // namespace cuspan::nccl

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nccl;  // NOLINT: the same.

CUSPAN_EXPORT int ncclAllReduce(const void* send, void* receive, std::size_t count, int type,
                                int operation, ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kAllReduce, send, receive, count, type, operation});
}

CUSPAN_EXPORT int ncclReduce(const void* send, void* receive, std::size_t count, int type,
                             int operation, int root, ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kReduce, send, receive, count, type, operation, root});
}

CUSPAN_EXPORT int ncclBroadcast(const void* send, void* receive, std::size_t count, int type,
                                int root, ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kBroadcast, send, receive, count, type, kSum, root});
}

CUSPAN_EXPORT int ncclBcast(void* buffer, std::size_t count, int type, int root, ncclComm* handle,
                            void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, handle, stream);
}

CUSPAN_EXPORT int ncclAllGather(const void* send, void* receive, std::size_t count, int type,
                                ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kAllGather, send, receive, count, type});
}

CUSPAN_EXPORT int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type,
                                    int operation, ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kReduceScatter, send, receive, count, type, operation});
}

CUSPAN_EXPORT int ncclAlltoAll(const void* send, void* receive, std::size_t count, int type,
                               ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kAllToAll, send, receive, count, type});
}

CUSPAN_EXPORT int ncclGather(const void* send, void* receive, std::size_t count, int type, int root,
                             ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kGather, send, receive, count, type, kSum, root});
}

CUSPAN_EXPORT int ncclScatter(const void* send, void* receive, std::size_t count, int type,
                              int root, ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kScatter, send, receive, count, type, kSum, root});
}

CUSPAN_EXPORT int ncclSend(const void* send, std::size_t count, int type, int peer,
                           ncclComm* handle, void* stream) {
  return Do(handle, stream, {CallKind::kSend, send, nullptr, count, type, kSum, peer});
}

CUSPAN_EXPORT int ncclRecv(void* receive, std::size_t count, int type, int peer, ncclComm* handle,
                           void* stream) {
  return Do(handle, stream, {CallKind::kReceive, nullptr, receive, count, type, kSum, peer});
}

CUSPAN_EXPORT int ncclRedOpCreatePreMulSum(int* operation, void* scalar, int type, int residence,
                                           ncclComm* handle) {
  return AnswerOnDevice(
      handle,
      [&](Session& session, const std::shared_ptr<Communicator>& communicator,
          const std::shared_ptr<ContextConnection>& connection) -> int {
        if (const int ready = CheckReady(*communicator); ready != kSuccess) return ready;
        if (operation == nullptr || scalar == nullptr || type < 0 || type >= kDataTypes ||
            (residence != kScalarDevice && residence != kScalarHostImmediate))
          return Refuse(kInvalidArgument,
                        "ncclRedOpCreatePreMulSum: an argument is null or out of range");
        CommunicatorFactor op;
        op.communicator = communicator->number;
        op.type = static_cast<std::uint32_t>(type);
        op.on_device = residence == kScalarDevice;
        if (op.on_device) {
          op.value = NumberOf(scalar);
          const Error exposed = session.region().Expose(op.value);
          if (exposed.failed()) return ResultOf(exposed);
        } else {
          std::memcpy(&op.value, scalar, ElementBytes(type));
        }
        op.operation = communicator->reductions.Add(type);
        *operation = static_cast<int>(op.operation);
        return ResultOf(Error(connection->Send(op)));
      });
}

CUSPAN_EXPORT int ncclRedOpDestroy(int operation, ncclComm* handle) {
  return AnswerOnDevice(handle,
                        [&](Session&, const std::shared_ptr<Communicator>& communicator,
                            const std::shared_ptr<ContextConnection>& connection) -> int {
                          if (operation < kReduceOps)
                            return Refuse(kInvalidArgument,
                                          Format("operation {} is built into NCCL", operation));
                          CommunicatorFactorEnd op;
                          op.communicator = communicator->number;
                          op.operation = static_cast<std::uint32_t>(operation);
                          if (!communicator->reductions.Remove(op.operation))
                            return Refuse(kInvalidArgument, Format("no operation {}", operation));
                          // The calls of a group using it are submitted first.
                          const auto send = [communicator, connection, op]() -> int {
                            if (communicator->reductions.IsCaptured(op.operation)) return kSuccess;
                            return ResultOf(Error(connection->Send(op)));
                          };
                          return Group::OfThisThread().Await(send, send);
                        });
}
