// Copies of boxes.
#include <optional>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/located_box.h"
#include "proxy/handlers/posted_op.h"
#include "proxy/handlers/transfer_op.h"

namespace cuspan::proxy {
namespace {

struct BetweenBoxes final : PostedOp {
  using PostedOp::PostedOp;
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (!MayTouch(*session, to.box) || !MayTouch(*session, from.box))
      return Finish(CUDA_ERROR_INVALID_VALUE);
    const BoxExtent& extent = to.box.extent;
    return FinishWork(CopyBetweenBoxes(session->driver(), to.box, from.box, stream->driver),
                      TimeToMove(extent.width * extent.rows * extent.planes));
  }

  LocatedBox to;
  LocatedBox from;
};

// Creates the transfer of a box; fails for an invalid op.
template <typename Op>
Result<std::shared_ptr<Transfer>> MakeTransfer(DeviceSession& session, const Origin& origin,
                                               const Op& op, const BoxLocation& location)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(CopySide side, FindSide(session, op, location));
  return std::make_shared<Transfer>(op.transfer, origin, std::move(side.stream), side.location.box,
                                    side.bytes, std::move(side.location.array));
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const CopyBoxToDevice& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Transfer> transfer,
                          MakeTransfer(session, origin, op, op.to));
  CUSPAN_RETURN_IF_ERROR(session.bulk().transfers().Announce(transfer, op.early));
  session.streams().queues().Add(*transfer->stream->queue, TransferToDevice(session, transfer));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyBoxFromDevice& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Transfer> transfer,
                          MakeTransfer(session, origin, op, op.from));
  session.streams().queues().Add(*transfer->stream->queue, TransferFromDevice(session, transfer));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyBoxOnDevice& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(LocatedBox to, FindBox(session, op.to, op.extent));
  CUSPAN_ASSIGN_OR_RETURN(LocatedBox from, FindBox(session, op.from, op.extent));
  BetweenBoxes copy(session, origin, std::move(stream));
  copy.to = std::move(to);
  copy.from = std::move(from);
  return Queue(session, std::move(copy));
}

}  // namespace cuspan::proxy
