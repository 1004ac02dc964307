// Copies of boxes and sets of rows.
#include <optional>

#include "proxy/handlers/box_place.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"
#include "proxy/handlers/transfer_op.h"

namespace cuspan::proxy {
namespace {

struct BetweenBoxes final : PostedOp {
  using PostedOp::PostedOp;
  Turn Submit() override {
    if (!MayTouch(*session, to.box) || !MayTouch(*session, from.box))
      return Finish(CUDA_ERROR_INVALID_VALUE);
    return Finish(CopyBetweenBoxes(session->driver, to.box, from.box, stream->driver));
  }

  Place to;
  Place from;
};

struct SetRows final : PostedOp {
  using PostedOp::PostedOp;
  Turn Submit() override {
    const DeviceBox box{
        nullptr, {0, set.destination, set.pitch, set.rows}, {set.width, set.rows, 1}};
    if (!MayTouch(*session, box)) return Finish(CUDA_ERROR_INVALID_VALUE);
    return Finish(session->driver.cuMemsetD2D8Async(set.destination, set.pitch,
                                                    static_cast<unsigned char>(set.value),
                                                    set.width, set.rows, stream->driver));
  }

  MemsetRows set;
};

// The transfer of a box, when the op makes sense.
template <typename Op>
Result<std::shared_ptr<Transfer>> MakeTransfer(DeviceSession& session, const Origin& origin,
                                               const Op& op, const BoxPlace& place) {
  Result<CopySide> side = FindSide(session, op, place);
  if (!side.ok()) return side.status();
  auto transfer = std::make_shared<Transfer>(op.transfer, origin, std::move(side->stream),
                                             place.address, side->bytes);
  transfer->array = std::move(side->place.array);
  transfer->box = side->place.box;
  return transfer;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const CopyBoxToDevice& op) {
  Result<std::shared_ptr<Transfer>> transfer = MakeTransfer(session, origin, op, op.to);
  if (!transfer.ok()) return transfer.status();
  CUSPAN_RETURN_IF_ERROR(session.transfers.Announce(*transfer));
  session.queues.Add(*(*transfer)->stream->queue, TransferToDevice(session, *transfer));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyBoxFromDevice& op) {
  Result<std::shared_ptr<Transfer>> transfer = MakeTransfer(session, origin, op, op.from);
  if (!transfer.ok()) return transfer.status();
  session.queues.Add(*(*transfer)->stream->queue, TransferFromDevice(session, *transfer));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const CopyBoxOnDevice& op) {
  Result<std::shared_ptr<Stream>> stream = session.FindStream(op.stream);
  if (!stream.ok()) return stream.status();
  Result<Place> to = FindPlace(session, op.to, op.extent);
  if (!to.ok()) return to.status();
  Result<Place> from = FindPlace(session, op.from, op.extent);
  if (!from.ok()) return from.status();
  BetweenBoxes copy(session, origin, std::move(*stream));
  copy.to = std::move(*to);
  copy.from = std::move(*from);
  return Queue(session, std::move(copy));
}

Status Handle(DeviceSession& session, const Origin& origin, const MemsetRows& op) {
  Result<std::shared_ptr<Stream>> stream = session.FindStream(op.stream);
  if (!stream.ok()) return stream.status();
  SetRows set(session, origin, std::move(*stream));
  set.set = op;
  return Queue(session, std::move(set));
}

}  // namespace cuspan::proxy
