// Events.
#include "interpose/calls/event.h"

#include "interpose/driver/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return AnswerInContext([&](Session&) { return CreateEvent(flags, event); });
}

CUSPAN_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  return InHostFunctionsToo(
      [&] { return AnswerInContext([&](Session&) { return DestroyEvent(event); }); });
}

CUSPAN_EXPORT_TWINS(cuEventRecord, _ptsz, (CUevent event, CUstream stream),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerOnStream(stream, [&](Session&) {
                        return RecordEvent(event, stream, CU_EVENT_RECORD_DEFAULT, meaning);
                      });
                    }))

CUSPAN_EXPORT_TWINS(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned flags),
                    InHostFunctionsToo(stream, [&] {
                      return AnswerOnStream(stream, [&](Session&) {
                        return RecordEvent(event, stream, flags, meaning);
                      });
                    }))

CUSPAN_EXPORT CUresult cuEventQuery(CUevent event) {
  return InHostFunctionsToo(
      [&] { return AnswerInAny([&](Session&) { return QueryEvent(event); }); });
}

CUSPAN_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return InHostFunctionsToo(
      [&] { return AnswerInAny([&](Session&) { return SynchronizeEvent(event); }); });
}

CUSPAN_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return InHostFunctionsToo([&] {
    return AnswerInContext([&](Session&) -> Error {
      if (milliseconds == nullptr) return CUDA_ERROR_INVALID_HANDLE;  // Measured natively.
      return ElapsedTime(start, end, milliseconds);
    });
  });
}
