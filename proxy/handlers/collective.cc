// Collectives: NCCL communicators of this device, and their operations in streams.
#include <cstring>

#include "common/log.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

// Number of bytes sent by a rank, or received if it sends none; for the timeline.
std::uint64_t BytesOf(const CallGroup& group) {
  std::uint64_t bytes = 0;
  for (const CollectiveCall& call : group.calls)
    bytes += call.count * nccl::ElementBytes(static_cast<int>(call.type));
  return bytes;
}

struct CollectiveOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    Begin(true);
    return SubmitResult::kHeld;
  }
  std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) override {
    return group->calls.size() * sizeof(CollectiveCall);
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override { session->collectives().Drop(group); }

  BatchKind Batches() const CUSPAN_REQUIRES(receiving_thread) override {
    return session->timeline().traced() ? BatchKind::kNone : BatchKind::kCollectives;
  }
  // Takes all consecutive groups of one program thread. The thread calling NCCL then has the next
  // group ready when a call returns.
  BatchResult SubmitBatch(std::span<StreamOp* const> batch)
      CUSPAN_REQUIRES(receiving_thread) override {
    std::size_t taken = 0;
    while (taken < batch.size() && At(batch, taken).origin.request == origin.request) ++taken;
    for (std::size_t i = 0; i < taken; ++i) At(batch, i).Begin(i + 1 == taken);
    return {taken, SubmitResult::kHeld};
  }

  static CollectiveOp& At(std::span<StreamOp* const> batch, std::size_t i) {
    return *static_cast<CollectiveOp*>(batch[i]);
  }
  // The stream continues after the last one.
  void Begin(bool last) const CUSPAN_REQUIRES(receiving_thread) {
    auto start = std::make_shared<Timeline::Start>(session->timeline().Begin(stream->driver));
    session->collectives().Begin(
        group, origin.request, stream->driver,
        [session = session, stream = stream, origin = origin, group = group, last,
         start](int result) CUSPAN_REQUIRES(receiving_thread) {
          if (result == nccl::kSuccess)
            session->timeline().End(std::move(*start), *stream, TraceKind::kCollective,
                                    group->members.front()->size(), 0, BytesOf(*group),
                                    NameOf(*group));
          // Failures are reported for the communicators. The stream may contain work of the group
          // even after a failure.
          session->streams().Submitted(stream, origin, CUDA_SUCCESS, kUnits);
          if (last) session->streams().queues().Release(*stream->queue);
        });
  }

  static std::string_view NameOf(const CallGroup& group) {
    return group.calls.size() == 1
               ? nccl::NameOf(static_cast<nccl::CallKind>(group.calls.front().kind))
               : "NCCL group";
  }

  // A group is a kernel and some further work of NCCL.
  static constexpr std::uint64_t kUnits = 4;
  std::shared_ptr<CallGroup> group;
};

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const NcclVersion& op) {
  return OnWorker<NcclVersion>(session, origin, [&session, path = op.path] {
    NcclVersion::Reply reply;
    const auto& library = session.collectives().Library(path);
    if (library.ok())
      reply.version = static_cast<std::uint32_t>((*library)->version());
    else
      reply.outcome = nccl::kSystemError;
    reply.problem = library.status().message();
    return reply;
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const NcclId& op) {
  return OnWorker<NcclId>(session, origin, [&session, path = op.path] {
    NcclId::Reply reply;
    const auto& library = session.collectives().Library(path);
    if (!library.ok()) {
      reply.outcome = nccl::kSystemError;
      reply.problem = library.status().message();
      return reply;
    }
    nccl::UniqueId id{};
    reply.outcome = (*library)->functions().ncclGetUniqueId(&id);
    if (reply.outcome != nccl::kSuccess) {
      const char* const text = (*library)->functions().ncclGetLastError(nullptr);
      reply.problem = text != nullptr ? text : "";
    }
    std::memcpy(reply.id.bytes.data(), id.bytes, sizeof(id.bytes));
    if (reply.outcome == nccl::kSuccess) {
      if (const Status watched = OpenLivenessServer(reply.id); !watched.ok())
        LogWarn("lost ranks of a communicator will not be detected: {}", watched.message());
    }
    return reply;
  });
}

Status Handle(DeviceSession& session, const Origin&, const CommunicatorJoin& op) {
  return session.collectives().Join(op);
}

Status Handle(DeviceSession& session, const Origin&, const CommunicatorSplit& op) {
  return session.collectives().Split(op);
}

Status Handle(DeviceSession& session, const Origin&, const CommunicatorShrink& op) {
  return session.collectives().Shrink(op);
}

Status Handle(DeviceSession& session, const Origin&, const CommunicatorEnd& op) {
  return session.collectives().End(op);
}

Status Handle(DeviceSession& session, const Origin&, const CommunicatorFactor& op) {
  return session.collectives().AddFactor(op);
}

Status Handle(DeviceSession& session, const Origin&, const CommunicatorFactorEnd& op) {
  return session.collectives().EndFactor(op);
}

Status Handle(DeviceSession& session, const Origin&, const CollectiveCalls& op) {
  return session.collectives().Keep(op);
}

Status Handle(DeviceSession& session, const Origin& origin, const CollectiveGroup& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<CallGroup> group,
                          session.collectives().MakeGroup(op, *stream->queue));
  if (group == nullptr) {
    session.faults().Posted(origin, CUDA_ERROR_INVALID_HANDLE);
    return Status::Ok();
  }
  CollectiveOp collective(session, origin, std::move(stream));
  std::shared_ptr<Dependency> dependency = group->position->dependency;
  collective.group = std::move(group);
  return Queue(session, std::move(collective), std::move(dependency));
}

}  // namespace cuspan::proxy
