// Device memory, and attributes of pointers.
#include <limits>

#include "interpose/calls/memory.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/kernel.h"

namespace cuspan {
namespace {

Error AllocatePitched3D(Session& session, const cudaExtent& extent, cudaPitchedPtr* out) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  if (extent.depth != 0 && extent.height > kMost / extent.depth) return cudaErrorMemoryAllocation;
  cudaPitchedPtr made{nullptr, 0, extent.width, extent.height};
  std::uint64_t address = 0;
  CUSPAN_RETURN_IF_FAILED(
      AllocatePitched(session, extent.width, extent.height * extent.depth, &made.pitch, &address));
  made.ptr = HandleOf<void*>(address);
  *out = made;
  return cudaSuccess;
}

void DescribePointer(Session& session, const void* pointer, cudaPointerAttributes* out) {
  *out = {};
  out->device = cudaInvalidDeviceId;
  const PointerKind kind = session.addresses().Classify(pointer);
  switch (kind.kind) {
    case PointerKind::kDevice:
      // A device address, but not allocated.
      if (kind.range_bytes == 0) break;
      out->type = cudaMemoryTypeDevice;
      out->device = kind.device;
      out->devicePointer = const_cast<void*>(pointer);
      return;
    case PointerKind::kManaged:
      out->type = cudaMemoryTypeManaged;
      out->device = kind.device;
      out->devicePointer = const_cast<void*>(pointer);
      break;
    case PointerKind::kPinnedHost:
      out->type = cudaMemoryTypeHost;
      out->device = kind.device;
      if (kind.range_bytes != 0) {
        out->devicePointer = const_cast<void*>(pointer);
      } else if (const auto address = session.region().registered().DeviceAddress(pointer)) {
        // Registered, and mapped at the program's request.
        out->devicePointer = HandleOf<void*>(*address);
      }
      break;
    case PointerKind::kUnknownHost:
      break;
  }
  out->hostPointer = const_cast<void*>(pointer);
}

template <typename Use>
Error WithVariable(const void* symbol, Use&& use) {
  if (symbol == nullptr) return cudaErrorInvalidSymbol;
  return OnCurrentDevice([&](Session&, ContextConnection& connection) -> Error {
    LoadedVariable variable{};
    CUSPAN_RETURN_IF_FAILED(FindVariable(connection, symbol, &variable));
    use(variable);
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return Answer([&]() -> Error {
    if (memory == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      std::uint64_t address = 0;
      const Error result = Allocate(session, bytes, &address);
      *memory = HandleOf<void*>(address);
      return result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaFree(void* memory) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      const Error result = Free(session, NumberOf(memory));
      const Error fault = CurrentFault();
      return fault.failed() ? fault : result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width,
                                          std::size_t height) {
  return Answer([&]() -> Error {
    if (memory == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      std::uint64_t address = 0;
      const Error result = AllocatePitched(session, width, height, pitch, &address);
      *memory = HandleOf<void*>(address);
      return result;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  return Answer([&]() -> Error {
    if (memory == nullptr) return cudaErrorInvalidValue;
    return WithSession(
        [&](Session& session) { return AllocatePitched3D(session, extent, memory); });
  });
}

CUSPAN_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                   const void* pointer) {
  return Answer([&]() -> Error {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      cudaPointerAttributes described;
      DescribePointer(session, pointer, &described);
      // The member `reserved` was added by CUDA 13.
      CopyFirst(attributes, &described, offsetof(cudaPointerAttributes, reserved));
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return Answer([&]() -> Error {
    if (address == nullptr) return cudaErrorInvalidValue;
    return WithVariable(symbol, [&](const LoadedVariable& variable) {
      *address = HandleOf<void*>(variable.address);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  return Answer([&]() -> Error {
    if (bytes == nullptr) return cudaErrorInvalidValue;
    return WithVariable(symbol, [&](const LoadedVariable& variable) { *bytes = variable.bytes; });
  });
}
