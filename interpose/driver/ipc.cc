// Memory, events and pools of several processes.
#include "interpose/calls/ipc.h"

#include <cstring>

#include "interpose/driver/entry.h"

namespace cuspan {
namespace {

template <typename To, typename From>
To Convert(const From& from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Tells *out the Handle that make(Handle*) → Error makes.
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
    std::uint64_t address = 0;
    CUSPAN_RETURN_IF_FAILED(OpenMemoryHandle(Convert<IpcMemoryHandle>(handle), &address));
    *memory = address;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
  return AnswerInContext([&](Session&) { return CloseMemoryHandle(memory); });
}

CUSPAN_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return AnswerInContext([&](Session&) {
    return Give<SharedEventHandle>(handle, [&](auto* made) { return GetEventHandle(event, made); });
  });
}

CUSPAN_EXPORT CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return AnswerInContext([&](Session&) -> Error {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return OpenEventHandle(Convert<SharedEventHandle>(handle), event);
  });
}
