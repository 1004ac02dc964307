// cuEvent*.
#include <utility>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {

CUSPAN_SOFT_API CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // CU_EVENT_BLOCKING_SYNC selects how to wait; here, threads always sleep. Events of other
  // processes (CU_EVENT_INTERPROCESS) are not supported.
  if ((flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    return (flags & CU_EVENT_DISABLE_TIMING) == 0 ? CUDA_ERROR_INVALID_VALUE
                                                  : CUDA_ERROR_NOT_SUPPORTED;
  }
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  auto entry = std::make_shared<EventEntry>();
  entry->context = std::move(context);
  entry->event = std::make_shared<Event>((flags & CU_EVENT_DISABLE_TIMING) == 0);
  *event = AsHandle<CUevent>(driver->events.Add(std::move(entry)));
  return CUDA_SUCCESS;
}

// Operations waiting for the event's record keep waiting.
CUSPAN_SOFT_API CUresult CUDAAPI cuEventDestroy(CUevent handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<EventEntry> entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(handle, &entry));
  return driver->events.Remove(Number(handle)) == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                                          : CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<EventEntry> entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(handle, &entry));
  StreamEntry at;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &at));
  if (at.context != entry->context) return CUDA_ERROR_INVALID_HANDLE;
  at.context->streams().Record(*at.stream, *entry->event);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuEventQuery(CUevent handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<EventEntry> entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(handle, &entry));
  const OperationPtr record = entry->event->record();
  if (record != nullptr && !record->done()) return CUDA_ERROR_NOT_READY;
  return entry->context->error();
}

CUSPAN_SOFT_API CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<EventEntry> entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(handle, &entry));
  if (const OperationPtr record = entry->event->record(); record != nullptr) record->Wait();
  return entry->context->error();
}

CUSPAN_SOFT_API CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  CUSPAN_SOFT_ENTER(driver);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<EventEntry> start, end;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(from, &start));
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(to, &end));
  const OperationPtr first = start->event->record();
  const OperationPtr second = end->event->record();
  if (start->context != end->context || !start->event->timed() || !end->event->timed() ||
      first == nullptr || second == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!first->done() || !second->done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(second->done_nanoseconds()) -
                                     static_cast<double>(first->done_nanoseconds())) *
                  1e-6f;
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
