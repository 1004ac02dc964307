#include "interpose/calls/event.h"

#include "interpose/calls/graph/in_stream.h"

namespace cuspan {

Error CreateEvent(unsigned flags, CUevent* event) {
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (event == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // Required by CUDA.
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(session.events().Create(flags, &made));
    *event = HandleOf<CUevent>(made);
    return CUDA_SUCCESS;
  });
}

Error DestroyEvent(CUevent event) {
  return WithSession(
      [&](Session& session) -> Error { return session.events().Destroy(NumberOf(event)); });
}

Error RecordEvent(CUevent event, CUstream stream, unsigned flags, DefaultStream meaning) {
  return EventInStream(event, stream, flags, meaning, CaptureRecord, RecordWork{event},
                       [&](Session& session, const StreamTarget& target) {
                         return session.events().Record(NumberOf(event), target);
                       });
}

Error WaitEvent(CUstream stream, CUevent event, unsigned flags, DefaultStream meaning) {
  if (event == nullptr) {
    return WithSession([&](Session& session) -> Error {
      StreamTarget target;
      CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, meaning, &target));
      // Ends a capture, same as with NVIDIA's driver. Recording a null event does not.
      if (AnyCapture(session)) static_cast<void>(RefuseCapture(session, target));
      return CUDA_ERROR_INVALID_HANDLE;
    });
  }
  return EventInStream(event, stream, flags, meaning, CaptureWait, WaitWork{event},
                       [&](Session& session, const StreamTarget& target) {
                         return session.events().Wait(target, NumberOf(event));
                       });
}

Error QueryEvent(CUevent event) {
  return WithSession([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(RefuseCapturedEvent(session, event));
    return session.events().Query(NumberOf(event));
  });
}

Error SynchronizeEvent(CUevent event) {
  return WithSession([&](Session& session) -> Error {
    CUSPAN_RETURN_IF_FAILED(RefuseCapturedEvent(session, event));
    return session.events().Synchronize(NumberOf(event));
  });
}

Error ElapsedTime(CUevent start, CUevent end, float* milliseconds) {
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    if (IsCaptured(session, start) || IsCaptured(session, end)) return CUDA_ERROR_CAPTURED_EVENT;
    return session.events().ElapsedTime(NumberOf(start), NumberOf(end), milliseconds);
  });
}

}  // namespace cuspan
