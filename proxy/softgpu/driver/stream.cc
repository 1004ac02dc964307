// cuStream*.
#include <algorithm>
#include <utility>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {

CUSPAN_SOFT_API CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned flags,
                                                            int priority) {
  CUSPAN_SOFT_ENTER(driver);
  if (stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  driver->MayWait(*context);
  auto entry = std::make_shared<StreamEntry>();
  entry->stream = context->streams().Create(
      flags != CU_STREAM_NON_BLOCKING,
      std::clamp(priority, limits::kGreatestPriority, limits::kMinPriority));
  entry->context = std::move(context);
  *stream = AsHandle<CUstream>(driver->streams.Add(std::move(entry)));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<StreamEntry> entry = driver->streams.Find(Number(handle));
  if (entry == nullptr) return driver->InvalidHandle();
  CUSPAN_SOFT_RETURN_IF_ERROR(entry->context->error());
  entry = driver->streams.Remove(Number(handle));
  if (entry == nullptr) return driver->InvalidHandle();
  entry->context->streams().Destroy(entry->stream);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(handle, &entry));
  for (const OperationPtr& operation : entry.context->streams().Pending(*entry.stream)) {
    operation->Wait();
  }
  return entry.context->error();
}

CUSPAN_SOFT_API CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  CUSPAN_SOFT_ENTER(driver);
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(handle, &entry));
  const bool idle = entry.context->streams().Pending(*entry.stream).empty();
  CUSPAN_SOFT_RETURN_IF_ERROR(entry.context->error());
  return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (flags != CU_EVENT_WAIT_DEFAULT && flags != CU_EVENT_WAIT_EXTERNAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  StreamEntry entry;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(handle, &entry));
  std::shared_ptr<EventEntry> waited;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindEvent(event, &waited));
  // Waiting for a never recorded event does nothing.
  if (OperationPtr record = waited->event->record(); record != nullptr) {
    entry.context->streams().Enqueue(*entry.stream, nullptr, std::move(record));
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
