// Memory, events and memory pools shared between processes of one run.
#include "interpose/calls/ipc.h"

#include <cstring>

#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// The program's structures may have any alignment.
template <typename To, typename From>
To Convert(const From& from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Stores the Handle from make(Handle*) → Error in *out.
template <typename Handle, typename Out, typename Make>
Error Give(Out* out, Make&& make) {
  Handle made;
  CUSPAN_RETURN_IF_FAILED(make(&made));
  *out = Convert<Out>(made);
  return cudaSuccess;
}

// Stores the address from make(std::uint64_t*) → Error in *memory.
template <typename Make>
Error GiveAddress(void** memory, Make&& make) {
  std::uint64_t address = 0;
  CUSPAN_RETURN_IF_FAILED(make(&address));
  *memory = HandleOf<void*>(address);
  return cudaSuccess;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return Answer([&]() -> Error {
    if (handle == nullptr || memory == nullptr) return cudaErrorInvalidValue;
    return Give<IpcMemoryHandle>(handle, [&](auto* made) { return GetMemoryHandle(memory, made); });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                               unsigned flags) {
  return Answer([&]() -> Error {
    if (memory == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    return GiveAddress(memory, [&](std::uint64_t* address) {
      return OpenMemoryHandle(Convert<IpcMemoryHandle>(handle), address);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return AnswerUnlessFaulted([&] { return CloseMemoryHandle(NumberOf(memory)); });
}

CUSPAN_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return AnswerUnlessFaulted([&]() -> Error {
    if (handle == nullptr) return cudaErrorInvalidValue;
    return Give<SharedEventHandle>(handle, [&](auto* made) { return GetEventHandle(event, made); });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return Answer([&]() -> Error {
    if (event == nullptr) return cudaErrorInvalidValue;
    return OpenEventHandle(Convert<SharedEventHandle>(handle), event);
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                             cudaMemAllocationHandleType type,
                                                             unsigned flags) {
  return Answer([&]() -> Error {
    if (handle == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (type != cudaMemHandleTypePosixFileDescriptor)
      return NotSupported(
          "cudaMemPoolExportToShareableHandle with a handle type other than a file descriptor");
    return ExportPool(pool, static_cast<int*>(handle));
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                               cudaMemAllocationHandleType type,
                                                               unsigned flags) {
  return Answer([&]() -> Error {
    if (pool == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (type != cudaMemHandleTypePosixFileDescriptor)
      return NotSupported(
          "cudaMemPoolImportFromShareableHandle with a handle type other than a file descriptor");
    return ImportPool(static_cast<int>(NumberOf(handle)), pool);
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* memory) {
  return Answer([&]() -> Error {
    if (data == nullptr || memory == nullptr) return cudaErrorInvalidValue;
    return Give<IpcMemoryHandle>(data, [&](auto* made) { return ExportPointer(memory, made); });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolImportPointer(void** memory, cudaMemPool_t pool,
                                                   cudaMemPoolPtrExportData* data) {
  return Answer([&]() -> Error {
    if (memory == nullptr || data == nullptr) return cudaErrorInvalidValue;
    return GiveAddress(memory, [&](std::uint64_t* address) {
      return ImportPointer(pool, Convert<IpcMemoryHandle>(*data), address);
    });
  });
}
