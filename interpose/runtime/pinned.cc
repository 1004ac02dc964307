// Page-locked memory of the host.
#include "interpose/calls/memory.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

constexpr unsigned kAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kRegisterFlags =
    cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;

Error AllocateHost(void** memory, std::size_t bytes, unsigned flags) {
  if (memory == nullptr || (flags & ~kAllocFlags) != 0) return cudaErrorInvalidValue;
  *memory = nullptr;
  return OnCurrentDevice([&](Session& session, Link& link) -> Error {
    if (bytes == 0) return cudaSuccess;
    CUSPAN_RETURN_IF_FAILED(session.host_memory().Allocate(bytes, flags, link.device(), memory));
    // Kernels may find it by pointers that we do not see.
    if ((flags & cudaHostAllocMapped) == 0) return cudaSuccess;
    return session.region().Expose(NumberOf(*memory));
  });
}

bool IsDeviceAddress(Session& session, const void* memory) {
  return session.addresses().Classify(memory).kind == PointerKind::kDevice;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return Answer([&] { return AllocateHost(memory, bytes, cudaHostAllocDefault); });
}

CUSPAN_EXPORT cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return Answer([&] { return AllocateHost(memory, bytes, flags); });
}

CUSPAN_EXPORT cudaError_t cudaFreeHost(void* memory) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      if (memory == nullptr) return cudaSuccess;
      const auto range = session.host_memory().Find(memory, 1);
      if (!range || !range->allocated || range->base != memory) return cudaErrorInvalidValue;
      CUSPAN_RETURN_IF_FAILED(WaitForDevices(session));
      return session.host_memory().Free(memory);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return Answer([&]() -> Error {
    if (memory == nullptr || bytes == 0) return cudaErrorInvalidValue;
    if (flags == cudaHostRegisterIoMemory) return NotSupported("cudaHostRegister of I/O memory");
    if ((flags & ~kRegisterFlags) != 0) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session& session, Link& link) -> Error {
      if (IsDeviceAddress(session, memory)) return cudaErrorInvalidValue;
      return session.host_memory().Register(memory, bytes, flags, link.device());
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaHostUnregister(void* memory) {
  return Answer([&]() -> Error {
    if (memory == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      const auto range = session.host_memory().Find(memory, 1);
      if (range && !range->allocated && range->base == memory) {
        CUSPAN_RETURN_IF_FAILED(WaitForDevices(session));
        session.region().registered().Forget(range->base);
      }
      return session.host_memory().Unregister(memory);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* memory, unsigned flags) {
  return Answer([&]() -> Error {
    if (device == nullptr || memory == nullptr || flags != 0) return cudaErrorInvalidValue;
    return OnCurrentDevice([&](Session& session, Link& link) -> Error {
      const auto range = session.host_memory().Find(memory, 1);
      if (!range) return cudaErrorInvalidValue;
      if (!session.region().available() || link.sharing() == Sharing::kNone)
        return NotSupported("mapped memory in a process in which its address range is in use");
      if (!range->allocated) {
        std::uint64_t address = 0;
        CUSPAN_RETURN_IF_FAILED(
            session.region().registered().Expose(range->base, range->bytes, memory, &address));
        *device = HandleOf<void*>(address);
        return cudaSuccess;
      }
      CUSPAN_RETURN_IF_FAILED(session.region().Expose(NumberOf(memory)));
      *device = memory;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void* memory) {
  return Answer([&]() -> Error {
    if (flags == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      const auto range = session.host_memory().Find(memory, 1);
      if (!range) return cudaErrorInvalidValue;
      // CUDA reports all such memory as mapped since address spaces are unified.
      *flags = range->flags | cudaHostAllocMapped;
      return cudaSuccess;
    });
  });
}
