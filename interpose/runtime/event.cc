// Events.
#include "interpose/calls/event.h"

#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// The runtime's flags equal the driver's.
CUSPAN_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Answer([&] { return CreateEvent(cudaEventDefault, event); });
}

CUSPAN_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Answer([&] { return CreateEvent(flags, event); });
}

CUSPAN_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Answer([&] { return DestroyEvent(event); });
}

CUSPAN_EXPORT_TWINS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), Answer([&] {
                      return RecordEvent(event, stream, cudaEventRecordDefault, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaEventRecordWithFlags, _ptsz,
                    (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                    Answer([&] { return RecordEvent(event, stream, flags, meaning); }))

CUSPAN_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  const HostFunctionMayCall permission;
  return Answer([&] { return QueryEvent(event); });
}

CUSPAN_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const HostFunctionMayCall permission;
  return Answer([&] { return SynchronizeEvent(event); });
}

CUSPAN_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                               cudaEvent_t end) {
  const HostFunctionMayCall permission;
  return Answer([&] { return ElapsedTime(start, end, milliseconds); });
}
