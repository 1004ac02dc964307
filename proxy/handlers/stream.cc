#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"
#include "proxy/handlers/stream_wait.h"

namespace cuspan::proxy {
namespace {

struct DestroyOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (ShareGate* const gate = session->sharing().gate()) gate->StreamEnds(*stream);
    session->streams().Forsake(stream);
    session->worker().Run([session = session, stream = stream] {
      session->faults().Check(session->driver().cuStreamDestroy(stream->driver));
    });
    return SubmitResult::kSubmitted;
  }
};

struct SynchronizeOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    session->streams().WhenDone(*stream, [session = session, request = origin.request,
                                          others = session->streams().OthersIdle(*stream)](
                                             CUresult result, std::uint64_t chunks) {
      session->channel().Reply<StreamSynchronize>(request, {result, chunks, others});
    });
    return SubmitResult::kSubmitted;
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override {
    session->channel().Reply<StreamSynchronize>(
        origin.request, {session->faults().lost(), session->completer().pushed()});
  }
};

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const StreamCreate& op) {
  if (op.stream <= reinterpret_cast<std::uint64_t>(CU_STREAM_PER_THREAD) ||
      session.streams().table().Find(op.stream))
    return Status::Invalid("stream 0x{:x} is not a new handle", op.stream);
  auto stream = std::make_shared<Stream>();
  stream->broken =
      session.driver().cuStreamCreateWithPriority(&stream->driver, op.flags, op.priority);
  if (stream->broken != CUDA_SUCCESS) session.faults().Posted(origin, stream->broken);
  stream->blocking = (op.flags & CU_STREAM_NON_BLOCKING) == 0;
  stream->queue = &session.streams().queues().AddStream(stream->blocking);
  session.streams().table().Add(op.stream, std::move(stream));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const StreamDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                          session.streams().table().Take(op.stream));
  StreamQueue& queue = *stream->queue;
  if (stream->broken == CUDA_SUCCESS)
    session.streams().queues().Add(queue, DestroyOp(session, origin, std::move(stream)));
  session.streams().queues().Retire(queue);
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const StreamSynchronize& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  QueueWait(session, SynchronizeOp(session, origin, std::move(stream)));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const StreamMark& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                          session.streams().FindDelegated(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(const ClientMark mark, MarkOf(session, op.mark, op.value));
  PutMark(session, origin, std::move(stream), mark, Behind::kAnything);
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const StreamQuery& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> found, session.FindStream(op.stream));
  Stream& stream = *found;
  const bool legacy = session.streams().IsLegacy(stream);
  CUresult result = stream.broken;
  if (result == CUDA_SUCCESS) {
    const bool handed_over = legacy ? session.streams().queues().EmptyAround(*stream.queue)
                                    : StreamQueues::Empty(*stream.queue);
    result = handed_over ? session.driver().cuStreamQuery(stream.driver) : CUDA_ERROR_NOT_READY;
    // The driver also counts the proxy's own events and marks in the stream. The program's work may
    // be known to be complete before the last of these is.
    if (handed_over && result == CUDA_ERROR_NOT_READY) {
      session.completer().PollNow();
      if (session.streams().Done(stream)) {
        session.channel().Reply<StreamQuery>(origin.request,
                                             {CUDA_SUCCESS, session.completer().pushed()});
        return Status::Ok();
      }
    }
  }
  if (result != CUDA_SUCCESS) {
    if (result != CUDA_ERROR_NOT_READY) session.faults().Check(result);
    session.channel().Reply<StreamQuery>(origin.request, {result, session.completer().pushed()});
    return Status::Ok();
  }
  // All work is complete; its last chunks may not be pushed yet.
  session.completer().Add(
      stream.progress, PooledEvent(), stream.submitted,
      [&session, request = origin.request](CUresult result, std::uint64_t chunks) {
        session.channel().Reply<StreamQuery>(request, {result, chunks});
      });
  return Status::Ok();
}

}  // namespace cuspan::proxy
