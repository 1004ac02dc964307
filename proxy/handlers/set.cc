#include <limits>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/located_box.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

struct Set final : PostedOp {
  using PostedOp::PostedOp;
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (!session->memory().MayTouch(set.destination, set.elements * set.element_bytes))
      return Finish(CUDA_ERROR_INVALID_VALUE);
    if (set.elements == 0) return SubmitResult::kSubmitted;
    return FinishWork(SetAll(), TimeToMove(set.elements * set.element_bytes));
  }
  CUresult SetAll() const {
    const Driver& driver = session->driver();
    switch (set.element_bytes) {
      case 1:
        return driver.cuMemsetD8Async(set.destination, static_cast<unsigned char>(set.value),
                                      set.elements, stream->driver);
      case 2:
        return driver.cuMemsetD16Async(set.destination, static_cast<unsigned short>(set.value),
                                       set.elements, stream->driver);
      default:
        return driver.cuMemsetD32Async(set.destination, set.value, set.elements, stream->driver);
    }
  }

  Memset set;
};

struct SetRows final : PostedOp {
  using PostedOp::PostedOp;
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    const DeviceBox box{
        nullptr, {0, set.destination, set.pitch, set.rows}, {set.width, set.rows, 1}};
    if (!MayTouch(*session, box)) return Finish(CUDA_ERROR_INVALID_VALUE);
    return FinishWork(session->driver().cuMemsetD2D8Async(set.destination, set.pitch,
                                                          static_cast<unsigned char>(set.value),
                                                          set.width, set.rows, stream->driver),
                      TimeToMove(set.width * set.rows));
  }

  MemsetRows set;
};

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const Memset& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  if (op.element_bytes != 1 && op.element_bytes != 2 && op.element_bytes != 4)
    return Status::Invalid("a memset with elements of {} bytes", op.element_bytes);
  if (op.elements > std::numeric_limits<std::uint64_t>::max() / op.element_bytes)
    return Status::Invalid("a memset of {} elements of {} bytes", op.elements, op.element_bytes);
  Set set(session, origin, std::move(stream));
  set.set = op;
  return Queue(session, std::move(set));
}

Status Handle(DeviceSession& session, const Origin& origin, const MemsetRows& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  SetRows set(session, origin, std::move(stream));
  set.set = op;
  return Queue(session, std::move(set));
}

}  // namespace cuspan::proxy
