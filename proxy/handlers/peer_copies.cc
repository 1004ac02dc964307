// Copies from and to devices without mapped memory on this one.
#include "common/log.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/located_box.h"
#include "proxy/handlers/on_worker.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

// Time limit for the agents to create and deliver the channel.
constexpr std::chrono::milliseconds kJoinLimit{10'000};

struct PeerCopyOp final : StreamOp {
  PeerCopyOp(DeviceSession& session, std::shared_ptr<PeerCopy> copy)
      : session(&session), copy(std::move(copy)) {}
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    CUresult result = copy->stream->broken;
    if (!MayTouch(*session, copy->box)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) return session->bulk().peer_copies().Begin(copy);
    session->bulk().peer_copies().Fail(copy, result);
    return SubmitResult::kSubmitted;
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override {
    session->bulk().peer_copies().Drop(copy);
  }

  DeviceSession* session;
  std::shared_ptr<PeerCopy> copy;
};

template <typename Op>
Result<std::shared_ptr<PeerCopy>> MakeCopy(DeviceSession& session, const Origin& origin,
                                           const Op& op, const BoxLocation& location)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(CopySide side, FindSide(session, op, location));
  auto copy = std::make_shared<PeerCopy>(op.transfer, origin, std::move(side.stream));
  copy->join = op.join;
  copy->box = side.location.box;
  copy->array = std::move(side.location.array);
  copy->bytes = side.bytes;
  return copy;
}

Status Queue(DeviceSession& session, const std::shared_ptr<PeerCopy>& copy)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_RETURN_IF_ERROR(session.bulk().peer_copies().Announce(copy));
  session.streams().queues().Add(*copy->stream->queue, PeerCopyOp(session, copy));
  return Status::Ok();
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const PeerJoin& op) {
  if (session.joins() == nullptr) {
    session.channel().Reply<PeerJoin>(origin.request, {CUDA_ERROR_NOT_SUPPORTED});
    return Status::Ok();
  }
  return OnWorker<PeerJoin>(session, origin, [&session, join = op.join] {
    JoinInbox::Joined joined = session.joins()->Await(join, kJoinLimit);
    if (joined.channel == nullptr) {
      LogError("{}", joined.problem);
      return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
    for (const int direction : {0, 1}) session.device().Pin(joined.channel->StagingArea(direction));
    const auto unpin = [&driver = session.driver()](Channel* channel) {
      for (const int direction : {0, 1})
        driver.cuMemHostUnregister(channel->StagingArea(direction).data());
      delete channel;
    };
    session.bulk().peer_copies().Add(join,
                                     std::shared_ptr<Channel>(joined.channel.release(), unpin));
    return CUDA_SUCCESS;
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerSend& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<PeerCopy> copy, MakeCopy(session, origin, op, op.from));
  copy->sends = true;
  copy->until_end = op.until_end;
  return Queue(session, copy);
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerReceive& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<PeerCopy> copy, MakeCopy(session, origin, op, op.to));
  return Queue(session, copy);
}

Status Handle(DeviceSession& session, const Origin&, const PeerAbandon& op) {
  session.bulk().peer_copies().Abandon(op.join, op.transfer);
  return Status::Ok();
}

}  // namespace cuspan::proxy
