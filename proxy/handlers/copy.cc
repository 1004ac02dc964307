#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"
#include "proxy/handlers/transfer_op.h"

namespace cuspan::proxy {
namespace {

struct InlineCopy final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (!session->memory().MayTouch(destination, data.size()))
      return Finish(CUDA_ERROR_INVALID_VALUE);
    if (data.empty()) return SubmitResult::kSubmitted;
    Timeline::Start start = session->timeline().Begin(stream->driver);
    // From pageable memory: the driver copies the bytes before it returns.
    const CUresult result =
        session->driver().cuMemcpyHtoDAsync(destination, data.data(), data.size(), stream->driver);
    if (result == CUDA_SUCCESS)
      session->timeline().End(std::move(start), *stream, TraceKind::kToDevice, 0, 0, data.size());
    return Finish(result, 1 + data.size() / kInlineBytesPerUnit);
  }
  std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) override {
    kept.assign(data.begin(), data.end());
    data = kept;
    return kept.size();
  }

  std::uint64_t destination = 0;
  Bytes data;
  std::vector<std::byte> kept;
};

struct DeviceCopy final : PostedOp {
  using PostedOp::PostedOp;
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (!session->memory().MayTouch(copy.destination, copy.bytes) ||
        !session->memory().MayTouch(copy.source, copy.bytes))
      return Finish(CUDA_ERROR_INVALID_VALUE);
    if (copy.bytes == 0) return SubmitResult::kSubmitted;
    Timeline::Start start = session->timeline().Begin(stream->driver);
    const CUresult result = session->driver().cuMemcpyDtoDAsync(copy.destination, copy.source,
                                                                copy.bytes, stream->driver);
    if (result == CUDA_SUCCESS)
      session->timeline().End(std::move(start), *stream, TraceKind::kOnDevice, 0, 0, copy.bytes);
    return FinishWork(result, TimeToMove(copy.bytes));
  }

  CopyOnDevice copy;
};

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const CopyToDeviceInline& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  InlineCopy copy(session, origin, std::move(stream));
  copy.destination = op.destination;
  copy.data = op.data;
  return Queue(session, std::move(copy));
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyToDevice& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  auto transfer = std::make_shared<Transfer>(op.transfer, origin, stream,
                                             RunAt(op.destination, op.bytes), op.bytes);
  CUSPAN_RETURN_IF_ERROR(session.bulk().transfers().Announce(transfer, op.early));
  session.streams().queues().Add(*stream->queue, TransferToDevice(session, std::move(transfer)));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyFromDevice& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  auto transfer =
      std::make_shared<Transfer>(op.transfer, origin, stream, RunAt(op.source, op.bytes), op.bytes);
  session.streams().queues().Add(*stream->queue, TransferFromDevice(session, std::move(transfer)));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyOnDevice& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  DeviceCopy copy(session, origin, std::move(stream));
  copy.copy = op;
  return Queue(session, std::move(copy));
}

Status Handle(DeviceSession& session, const Origin&, const Chunk& op) {
  CUSPAN_RETURN_IF_ERROR(session.bulk().transfers().ReceiveChunk(op));
  session.files().copies().OnChunk(op.transfer);
  return Status::Ok();
}

}  // namespace cuspan::proxy
