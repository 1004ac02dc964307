// Memory of the devices, and what a pointer points to.
#include <algorithm>
#include <limits>

#include "interpose/calls/attributes.h"
#include "interpose/client/ipc_memory.h"
#include "interpose/client/pools.h"
#include "interpose/client/thread_state.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"
#include "interpose/runtime/function.h"

namespace cuspan {
namespace {

Error Allocate(Session& session, std::size_t bytes, void** memory) {
  *memory = nullptr;
  if (bytes == 0) {
    std::shared_ptr<Link> link;
    return session.CurrentLink(&link);
  }
  std::uint64_t address = 0;
  CUSPAN_RETURN_IF_FAILED(session.Allocate(bytes, &address));
  *memory = HandleOf<void*>(address);
  return cudaSuccess;
}

Error Free(Session& session, void* memory) {
  if (memory != nullptr) {
    // Another process's, of a pool that both share.
    if (Pools::Get().ForgetImported(NumberOf(memory)))
      return IpcMemory::Get().Close(session, NumberOf(memory));
    return session.Free(NumberOf(memory));
  }
  // The classic way to start CUDA on the current device.
  std::shared_ptr<Link> link;
  return session.CurrentLink(&link);
}

// Rows of `width` bytes start at multiples of a pitch that suits every access.
Error AllocatePitched(Session& session, std::size_t width, std::size_t rows, std::size_t* pitch,
                      void** memory) {
  *memory = nullptr;
  *pitch = 0;
  if (width == 0 || rows == 0) return Allocate(session, 0, memory);
  const DeviceDescription& device = session.description(ThisThread().current_device);
  const auto alignment = static_cast<std::size_t>(
      std::max(512, AttributeOf(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)));
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  if (width > kMost - alignment) return cudaErrorMemoryAllocation;
  const std::size_t row = (width + alignment - 1) / alignment * alignment;
  if (rows > kMost / row) return cudaErrorMemoryAllocation;
  CUSPAN_RETURN_IF_FAILED(Allocate(session, row * rows, memory));
  *pitch = row;
  return cudaSuccess;
}

Error AllocatePitched3D(Session& session, const cudaExtent& extent, cudaPitchedPtr* out) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  if (extent.depth != 0 && extent.height > kMost / extent.depth) return cudaErrorMemoryAllocation;
  cudaPitchedPtr made{nullptr, 0, extent.width, extent.height};
  CUSPAN_RETURN_IF_FAILED(
      AllocatePitched(session, extent.width, extent.height * extent.depth, &made.pitch, &made.ptr));
  *out = made;
  return cudaSuccess;
}

void DescribePointer(Session& session, const void* pointer, cudaPointerAttributes* out) {
  *out = {};
  out->device = cudaInvalidDeviceId;
  const Session::PointerKind kind = session.Classify(pointer);
  switch (kind.kind) {
    case Session::PointerKind::kDevice:
      // Inside the device's addresses, but not allocated: nobody's memory.
      if (kind.range_bytes == 0) break;
      out->type = cudaMemoryTypeDevice;
      out->device = kind.device;
      out->devicePointer = const_cast<void*>(pointer);
      return;
    case Session::PointerKind::kManaged:
      out->type = cudaMemoryTypeManaged;
      out->device = kind.device;
      out->devicePointer = const_cast<void*>(pointer);
      break;
    case Session::PointerKind::kPinnedHost:
      out->type = cudaMemoryTypeHost;
      out->device = kind.device;
      if (kind.range_bytes != 0) {
        out->devicePointer = const_cast<void*>(pointer);
      } else if (const auto address = session.shared().registered().DeviceAddress(pointer)) {
        // Registered, and the program has asked for it.
        out->devicePointer = HandleOf<void*>(*address);
      }
      break;
    case Session::PointerKind::kUnknownHost:
      break;
  }
  out->hostPointer = const_cast<void*>(pointer);
}

template <typename Use>
Error WithVariable(const void* symbol, Use&& use) {
  if (symbol == nullptr) return cudaErrorInvalidSymbol;
  return OnCurrentDevice([&](Session&, Link& link) -> Error {
    LoadedVariable variable{};
    CUSPAN_RETURN_IF_FAILED(FindVariable(link, symbol, &variable));
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
    return WithSession([&](Session& session) { return Allocate(session, bytes, memory); });
  });
}

CUSPAN_EXPORT cudaError_t cudaFree(void* memory) {
  return Answer(
      [&] { return WithSession([&](Session& session) { return Free(session, memory); }); });
}

CUSPAN_EXPORT cudaError_t cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width,
                                          std::size_t height) {
  return Answer([&]() -> Error {
    if (memory == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
    return WithSession(
        [&](Session& session) { return AllocatePitched(session, width, height, pitch, memory); });
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
      // What is reserved since CUDA 13 programs of earlier ones do not have.
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
