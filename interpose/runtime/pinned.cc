// Pinned host memory.
#include "interpose/calls/pinned.h"

#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// The runtime's flags equal the driver's.
CUSPAN_EXPORT cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return Answer([&] { return AllocatePinned(bytes, cudaHostAllocDefault, memory); });
}

CUSPAN_EXPORT cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return Answer([&] { return AllocatePinned(bytes, flags, memory); });
}

CUSPAN_EXPORT cudaError_t cudaFreeHost(void* memory) {
  return Answer([&]() -> Error {
    const Error result = FreePinned(memory);
    const Error fault = CurrentFault();
    return fault.failed() ? fault : result;
  });
}

CUSPAN_EXPORT cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return Answer([&] { return RegisterPinned(memory, bytes, flags); });
}

CUSPAN_EXPORT cudaError_t cudaHostUnregister(void* memory) {
  return AnswerUnlessFaulted([&] { return UnregisterPinned(memory); });
}

CUSPAN_EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* memory, unsigned flags) {
  return Answer([&]() -> Error {
    if (device == nullptr || memory == nullptr || flags != 0) return cudaErrorInvalidValue;
    std::uint64_t address = 0;
    CUSPAN_RETURN_IF_FAILED(DeviceAddressOfPinned(memory, &address));
    *device = HandleOf<void*>(address);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void* memory) {
  return AnswerUnlessFaulted([&]() -> Error {
    if (flags == nullptr) return cudaErrorInvalidValue;
    return FlagsOfPinned(memory, flags);
  });
}
