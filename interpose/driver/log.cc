// The driver's log.
#include "interpose/calls/log.h"

#include "interpose/driver/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuLogsCurrent(CUlogIterator* iterator, unsigned flags) {
  return AnswerAlways([&] { return CurrentLog(iterator, flags); });
}

CUSPAN_EXPORT CUresult cuLogsDumpToFile(CUlogIterator* /*iterator*/, const char* path,
                                        unsigned flags) {
  return AnswerAlways([&] { return DumpLogToFile(path, flags); });
}

CUSPAN_EXPORT CUresult cuLogsDumpToMemory(CUlogIterator* /*iterator*/, char* buffer,
                                          std::size_t* bytes, unsigned flags) {
  return AnswerAlways([&] { return DumpLog(buffer, bytes, flags); });
}

CUSPAN_EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback callback, void* /*data*/,
                                              CUlogsCallbackHandle* handle) {
  return AnswerAlways([&]() -> Error {
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(RegisterLogCallback(callback != nullptr, &made));
    if (handle != nullptr) *handle = HandleOf<CUlogsCallbackHandle>(made);
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return AnswerAlways([&] { return UnregisterLogCallback(NumberOf(callback)); });
}
