// Events.
#include "interpose/calls/graph/capture.h"
#include "interpose/client/shared_event.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

Error CreateEvent(cudaEvent_t* event, unsigned flags) {
  constexpr unsigned kKnown =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) != 0) {
    if ((flags & cudaEventDisableTiming) == 0) return cudaErrorInvalidValue;
  }
  return WithSession([&](Session& session) -> Error {
    std::uint64_t made = 0;
    // The runtime's flags are the driver's.
    CUSPAN_RETURN_IF_FAILED(session.CreateEvent(flags, &made));
    if ((flags & cudaEventInterprocess) != 0) {
      auto shared = SharedEvent::Create();
      if (shared == nullptr) {
        static_cast<void>(session.DestroyEvent(made));
        return cudaErrorMemoryAllocation;
      }
      SharedEvent::Add(made, std::move(shared));
    }
    *event = HandleOf<cudaEvent_t>(made);
    return cudaSuccess;
  });
}

Error RecordEvent(cudaEvent_t event, cudaStream_t stream, unsigned flags, DefaultStream meaning) {
  return EventInStream(event, stream, flags, meaning, CaptureRecord, RecordWork{event},
                       [&](Session& session, const StreamTarget& target) {
                         return SharedEvent::RecordAny(session, NumberOf(event), target);
                       });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Answer([&] { return CreateEvent(event, cudaEventDefault); });
}

CUSPAN_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Answer([&] { return CreateEvent(event, flags); });
}

CUSPAN_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      SharedEvent::Remove(NumberOf(event));
      return session.DestroyEvent(NumberOf(event));
    });
  });
}

CUSPAN_EXPORT_TWINS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), Answer([&] {
                      return RecordEvent(event, stream, cudaEventRecordDefault, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaEventRecordWithFlags, _ptsz,
                    (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                    Answer([&] { return RecordEvent(event, stream, flags, meaning); }))

CUSPAN_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      CUSPAN_RETURN_IF_FAILED(RefuseCapturedEvent(event));
      if (const auto shared = SharedEvent::Find(NumberOf(event)))
        CUSPAN_RETURN_IF_FAILED(shared->Query());
      return session.QueryEvent(NumberOf(event));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      CUSPAN_RETURN_IF_FAILED(RefuseCapturedEvent(event));
      if (const auto shared = SharedEvent::Find(NumberOf(event)))
        CUSPAN_RETURN_IF_FAILED(shared->Synchronize());
      return session.SynchronizeEvent(NumberOf(event));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                               cudaEvent_t end) {
  return Answer([&]() -> Error {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      return session.ElapsedTime(NumberOf(start), NumberOf(end), milliseconds);
    });
  });
}
