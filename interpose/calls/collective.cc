#include "interpose/calls/collective.h"

#include <algorithm>
#include <utility>

#include "interpose/calls/graph/capture.h"
#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

// Number of calls guaranteed to fit a frame; see kMaxInlineBytes.
constexpr std::size_t kMaxInFrame = 512;
static_assert(kMaxInFrame * 56 <= kMaxInlineBytes);

// Makes `waiting` wait for the work now in `first`, in a capture or outside.
Error Follow(Session& session, const StreamTarget& first, const StreamTarget& waiting) {
  if (!AnyCapture(session)) return session.events().Order(first, waiting);
  std::uint64_t event = 0;
  CUSPAN_RETURN_IF_FAILED(
      session.events().CreateOn(first.connection, CU_EVENT_DISABLE_TIMING, &event));
  bool captured = false;
  bool waits = false;
  Error result = CaptureRecord(session, first, HandleOf<CUevent>(event), &captured);
  if (!result.failed() && !captured) result = session.events().Record(event, first);
  if (!result.failed()) result = CaptureWait(session, waiting, HandleOf<CUevent>(event), &waits);
  if (!result.failed() && !waits) result = session.events().Wait(waiting, event);
  static_cast<void>(session.events().Destroy(event));
  return result;
}

void Count(Session& session, ChannelStatistics& statistics,
           const std::vector<CollectiveCall>& calls) {
  for (const CollectiveCall& call : calls) {
    const std::uint64_t bytes = call.count * nccl::ElementBytes(static_cast<int>(call.type));
    statistics.collective_calls[call.kind].fetch_add(1, std::memory_order_relaxed);
    statistics.collective_bytes[call.kind].fetch_add(bytes, std::memory_order_relaxed);
    const auto communicator = session.communicators().Find(call.communicator);
    if (communicator == nullptr) continue;
    const auto ranks = static_cast<std::uint32_t>(communicator->size());
    if (ranks > statistics.ranks.load(std::memory_order_relaxed))
      statistics.ranks.store(ranks, std::memory_order_relaxed);
  }
}

}  // namespace

Error SubmitCollectives(Session& session, const std::vector<StreamTarget>& streams,
                        std::vector<CollectiveCall> calls) {
  const StreamTarget& target = streams.front();
  if (AnyCapture(session)) {
    for (const StreamTarget& stream : streams)
      if (CaptureOf(stream).id != CaptureOf(target).id) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  for (std::size_t i = 1; i < streams.size(); ++i)
    CUSPAN_RETURN_IF_FAILED(Follow(session, streams[i], target));
  CollectiveWork work;
  work.connection = target.connection->number();
  work.device = target.connection->device();
  work.calls = std::move(calls);
  bool captured = false;
  if (AnyCapture(session)) {
    CUSPAN_RETURN_IF_FAILED(CaptureWork(
        session, target,
        [&](const NewNode&, Work* node) -> Described {
          for (const CollectiveCall& call : work.calls)
            if (const auto known = session.communicators().Find(call.communicator))
              known->reductions.Capture(call.operation);
          *node = work;
          return Error(CUDA_SUCCESS);
        },
        &captured));
  }
  if (!captured) CUSPAN_RETURN_IF_FAILED(PostCollectives(session, target, work));
  for (std::size_t i = 1; i < streams.size(); ++i)
    CUSPAN_RETURN_IF_FAILED(Follow(session, target, streams[i]));
  return CUDA_SUCCESS;
}

Error PostCollectives(Session& session, const StreamTarget& target, const CollectiveWork& work) {
  ContextConnection& connection = *target.connection;
  if (connection.number() != work.connection) return CUDA_ERROR_INVALID_CONTEXT;
  for (const CollectiveCall& call : work.calls)
    for (const std::uint64_t address : {call.send, call.receive})
      if (address != 0) CUSPAN_RETURN_IF_FAILED(session.region().Expose(address));
  CollectiveGroup op;
  op.stream = target.stream;
  auto next = work.calls.begin();
  for (; static_cast<std::size_t>(work.calls.end() - next) > kMaxInFrame; next += kMaxInFrame) {
    if (op.group == 0) op.group = NextHandle();
    CUSPAN_RETURN_IF_FAILED(connection.Send(CollectiveCalls{op.group, {next, next + kMaxInFrame}}));
  }
  op.calls.assign(next, work.calls.end());
  Count(session, connection.channel().statistics(), work.calls);
  return connection.Post(op);
}

}  // namespace cuspan
