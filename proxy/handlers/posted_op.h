// Common part of a stream's posted ops.
#pragma once

#include <utility>

#include "proxy/session/device_session.h"
#include "proxy/streams/kernel_output.h"

namespace cuspan::proxy {

struct PostedOp : StreamOp {
  PostedOp(DeviceSession& session, const Origin& origin, std::shared_ptr<Stream> stream)
      : session(&session), origin(origin), stream(std::move(stream)) {}

  // Records the driver's result.
  SubmitResult Finish(CUresult result, std::uint64_t units = 1) CUSPAN_REQUIRES(receiving_thread) {
    session->streams().Submitted(stream, origin, result, units);
    return SubmitResult::kSubmitted;
  }

  // The same for work of the GPU's processors.
  SubmitResult FinishWork(CUresult result, const PredictedWork& work, std::uint64_t units = 1)
      CUSPAN_REQUIRES(receiving_thread) {
    Finish(result, units);
    if (session->sharing().SharesNow() && result == CUDA_SUCCESS)
      session->sharing().gate()->Started(stream, work);
    return SubmitResult::kSubmitted;
  }
  // Begin is called before, End after the submission of kernels possibly printing (KernelOutput).
  static void BeginPrinting() { KernelOutput::Begin(); }
  void EndPrinting() CUSPAN_REQUIRES(receiving_thread) {
    session->streams().WhenDone(*stream, [](CUresult, std::uint64_t) { KernelOutput::End(); });
  }
  // Predicted time of moving `bytes` within a GPU: about 1 TB/s, plus the start.
  static PredictedWork TimeToMove(std::uint64_t bytes) {
    return {2000.0 + static_cast<double>(bytes) / 1000, false};
  }

  DeviceSession* session;
  Origin origin;
  std::shared_ptr<Stream> stream;
};

// Adds an op to its stream's queue.
template <std::derived_from<PostedOp> T>
Status Queue(DeviceSession& session, T op, std::shared_ptr<Dependency> dependency = nullptr)
    CUSPAN_REQUIRES(receiving_thread) {
  if (op.stream->broken != CUDA_SUCCESS) {
    session.faults().Posted(op.origin, op.stream->broken);
    op.Drop();
    return Status::Ok();
  }
  StreamQueue& queue = *op.stream->queue;
  session.streams().queues().Add(queue, std::move(op), std::move(dependency));
  return Status::Ok();
}

}  // namespace cuspan::proxy
