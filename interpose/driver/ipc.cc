// Memory, events and pools shared between processes.
#include "interpose/calls/ipc.h"

#include <cstring>

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

// Stores the address from make(std::uint64_t*) → Error in *memory.
template <typename Make>
Error GiveAddress(CUdeviceptr* memory, Make&& make) {
  std::uint64_t address = 0;
  CUSPAN_RETURN_IF_FAILED(make(&address));
  *memory = address;
  return CUDA_SUCCESS;
}

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
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Handle made;
  CUSPAN_RETURN_IF_FAILED(make(&made));
  *out = Convert<Out>(made);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr memory) {
  return AnswerInContext([&](Session&) {
    return Give<IpcMemoryHandle>(
        handle, [&](auto* made) { return GetMemoryHandle(HandleOf<const void*>(memory), made); });
  });
}

CUSPAN_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* memory, CUipcMemHandle handle,
                                             unsigned flags) {
  return AnswerInContext([&](Session&) -> Error {
    if (memory == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
      return CUDA_ERROR_INVALID_VALUE;
    return GiveAddress(memory, [&](std::uint64_t* address) {
      return OpenMemoryHandle(Convert<IpcMemoryHandle>(handle), address);
    });
  });
}

CUSPAN_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
  return AnswerInContext([&](Session&) { return CloseMemoryHandle(memory); });
}

CUSPAN_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return AnswerInContext([&](Session&) -> Error {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (handle != nullptr) *handle = {};  // Same as the driver on failure (measured, 580).
    return Give<SharedEventHandle>(handle, [&](auto* made) { return GetEventHandle(event, made); });
  });
}

CUSPAN_EXPORT CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return AnswerInContext([&](Session&) -> Error {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return OpenEventHandle(Convert<SharedEventHandle>(handle), event);
  });
}

CUSPAN_EXPORT CUresult cuMemPoolExportToShareableHandle(void* handle, CUmemoryPool pool,
                                                        CUmemAllocationHandleType type,
                                                        unsigned long long flags) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return NotSupported(
          "cuMemPoolExportToShareableHandle with a handle type other than a file descriptor");
    return ExportPool(pool, static_cast<int*>(handle));
  });
}

CUSPAN_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle,
                                                          CUmemAllocationHandleType type,
                                                          unsigned long long flags) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return NotSupported(
          "cuMemPoolImportFromShareableHandle with a handle type other than a file descriptor");
    return ImportPool(static_cast<int>(NumberOf(handle)), pool);
  });
}

CUSPAN_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr memory) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (memory == 0) return CUDA_ERROR_INVALID_VALUE;
    return Give<IpcMemoryHandle>(
        data, [&](auto* made) { return ExportPointer(HandleOf<const void*>(memory), made); });
  });
}

CUSPAN_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr* memory, CUmemoryPool pool,
                                              CUmemPoolPtrExportData* data) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (memory == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return GiveAddress(memory, [&](std::uint64_t* address) {
      return ImportPointer(pool, Convert<IpcMemoryHandle>(*data), address);
    });
  });
}
