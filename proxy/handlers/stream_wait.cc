#include "proxy/handlers/stream_wait.h"

namespace cuspan::proxy {
namespace {

struct MarkOp final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    StreamPoints& points = session->streams().points();
    if (session->streams().OthersIdle(*stream)) mark.value |= ChannelMark::kDeviceIdle;
    // If other runs use the GPU, this one's progress must not depend on words of its client.
    if (stream->broken == CUDA_SUCCESS && session->sharing().gate() == nullptr &&
        session->streams().DeviceMarks(*stream))
      Put(points);
    else
      session->streams().WhenDone(*stream, [&points, mark = mark](CUresult result, std::uint64_t) {
        points.WriteMark(mark, result);
      });
    return SubmitResult::kSubmitted;
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override {
    session->streams().points().WriteMark(mark, session->faults().lost());
  }

  void Put(StreamPoints& points) CUSPAN_REQUIRES(receiving_thread) {
    if (behind == Behind::kLaunch ||
        !points.TryMark(stream->progress, stream->Asked(), stream->submitted, mark))
      points.PutMark(stream->driver, stream->progress, stream->Asked(), stream->submitted, mark);
  }

  ClientMark mark;
  Behind behind = Behind::kAnything;
};

}  // namespace

Result<ClientMark> MarkOf(DeviceSession& session, std::uint32_t number, std::uint32_t value) {
  if (number >= ChannelMarks::kCount || value % ChannelMark::kStep != 0)
    return Status::Invalid("mark {} with the value {} does not exist", number, value);
  return ClientMark{&session.channel().marks().all()[number], value};
}

void PutMark(DeviceSession& session, const Origin& origin, std::shared_ptr<Stream> stream,
             const ClientMark& mark, Behind behind) {
  if (session.submitters().Delegate(stream, mark)) return;
  session.submitters().Await(*stream);
  MarkOp marking(session, origin, std::move(stream));
  marking.mark = mark;
  marking.behind = behind;
  QueueWait(session, std::move(marking));
}

}  // namespace cuspan::proxy
