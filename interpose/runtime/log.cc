// The driver's log.
#include "interpose/calls/log.h"

#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaLogsCurrent(cudaLogIterator* iterator, unsigned flags) {
  return Answer([&] { return CurrentLog(iterator, flags); });
}

CUSPAN_EXPORT cudaError_t cudaLogsDumpToFile(cudaLogIterator* /*iterator*/, const char* path,
                                             unsigned flags) {
  return Answer([&] { return DumpLogToFile(path, flags); });
}

CUSPAN_EXPORT cudaError_t cudaLogsDumpToMemory(cudaLogIterator* /*iterator*/, char* buffer,
                                               std::size_t* bytes, unsigned flags) {
  return Answer([&] { return DumpLog(buffer, bytes, flags); });
}

CUSPAN_EXPORT cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t callback, void* /*data*/,
                                                   cudaLogsCallbackHandle* handle) {
  return Answer([&]() -> Error {
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(RegisterLogCallback(callback != nullptr, &made));
    if (handle != nullptr) *handle = HandleOf<cudaLogsCallbackHandle>(made);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback) {
  return Answer([&] { return UnregisterLogCallback(NumberOf(callback)); });
}
