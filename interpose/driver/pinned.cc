// Pinned host memory.
#include "interpose/calls/pinned.h"

#include "interpose/driver/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  return AnswerInContext([&](Session&) -> Error { return AllocatePinned(bytes, 0, memory); });
}

CUSPAN_EXPORT CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return AnswerInContext([&](Session&) -> Error { return AllocatePinned(bytes, flags, memory); });
}

CUSPAN_EXPORT CUresult cuMemFreeHost(void* memory) {
  return AnswerInAny([&](Session&) -> Error { return FreePinned(memory); });
}

CUSPAN_EXPORT CUresult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  return AnswerInContext([&](Session&) { return RegisterPinned(memory, bytes, flags); });
}

CUSPAN_EXPORT CUresult cuMemHostUnregister(void* memory) {
  return AnswerInAny([&](Session&) { return UnregisterPinned(memory); });
}

CUSPAN_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* memory,
                                                    unsigned flags) {
  return AnswerInContext([&](Session&) -> Error {
    if (device == nullptr || memory == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t address = 0;
    CUSPAN_RETURN_IF_FAILED(DeviceAddressOfPinned(memory, &address));
    *device = address;
    return CUDA_SUCCESS;
  });
}

CUSPAN_EXPORT CUresult cuMemHostGetFlags(unsigned* flags, void* memory) {
  return AnswerInContext([&](Session&) -> Error {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return FlagsOfPinned(memory, flags);
  });
}
