#include "interpose/calls/pinned.h"

#include <cstring>

#include "interpose/calls/memory.h"

namespace cuspan {
namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;

// True for device and managed memory; it cannot be registered.
bool IsDevices(Session& session, const void* memory) {
  const auto kind = session.addresses().Classify(memory).kind;
  return kind == PointerKind::kDevice || kind == PointerKind::kManaged;
}

Error ExposeRegistered(Session& session, const HostRange& range, const void* memory,
                       std::uint64_t* address) {
  RegisteredMemory& registered = session.region().registered();
  if (const auto known = registered.DeviceAddress(memory)) {
    *address = *known;
    return CUDA_SUCCESS;
  }
  // Copies in flight from and to it are not in order with kernels.
  const HostSpan span{NumberOf(range.base), NumberOf(range.base) + range.bytes};
  for (const auto& connection : session.devices().ContextConnections()) {
    if (connection->fault() != CUDA_SUCCESS || !connection->transfers().Uses(span)) continue;
    CUSPAN_RETURN_IF_FAILED(connection->CallAndStore(DeviceSynchronize{}));
  }
  return registered.Expose(range.base, range.bytes, memory, address);
}

// Replaces an address in registered memory by the devices' address.
Error PointAtRegistered(Session& session, std::uint64_t* address) {
  const void* const memory = HandleOf<const void*>(*address);
  const auto range = session.host_memory().Find(memory, 1);
  if (!range || range->allocated) return CUDA_SUCCESS;
  return ExposeRegistered(session, *range, memory, address);
}

}  // namespace

Error AllocatePinned(std::size_t bytes, unsigned flags, void** memory) {
  if (memory == nullptr || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  *memory = nullptr;
  return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
    if (bytes == 0) return CUDA_SUCCESS;
    CUSPAN_RETURN_IF_FAILED(
        session.host_memory().Allocate(bytes, flags, connection.device(), memory));
    // Kernels may use it by pointers not visible to the client.
    if ((flags & CU_MEMHOSTALLOC_DEVICEMAP) == 0) return CUDA_SUCCESS;
    return session.region().Expose(NumberOf(*memory));
  });
}

Error FreePinned(void* memory) {
  return WithSession([&](Session& session) -> Error {
    if (memory == nullptr) return CUDA_SUCCESS;
    const auto range = session.host_memory().Find(memory, 1);
    if (!range || !range->allocated || range->base != memory) return CUDA_ERROR_INVALID_VALUE;
    CUSPAN_RETURN_IF_FAILED(WaitForDevices(session));
    return session.host_memory().Free(memory);
  });
}

Error RegisterPinned(void* memory, std::size_t bytes, unsigned flags) {
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_MEMHOSTREGISTER_IOMEMORY) return NotSupported("cudaHostRegister of I/O memory");
  if ((flags & ~kRegisterFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
    if (IsDevices(session, memory)) return CUDA_ERROR_INVALID_VALUE;
    return session.host_memory().Register(memory, bytes, flags, connection.device());
  });
}

Error UnregisterPinned(void* memory) {
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) -> Error {
    const auto range = session.host_memory().Find(memory, 1);
    if (range && !range->allocated && range->base == memory) {
      CUSPAN_RETURN_IF_FAILED(WaitForDevices(session));
      session.region().registered().Forget(range->base);
    }
    return session.host_memory().Unregister(memory);
  });
}

Error DeviceAddressOfPinned(void* memory, std::uint64_t* address) {
  return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
    const auto range = session.host_memory().Find(memory, 1);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    if (!session.region().available() || connection.sharing() == Sharing::kNone)
      return NotSupported("mapped memory (its address range is in use in this process)");
    if (!range->allocated) return ExposeRegistered(session, *range, memory, address);
    *address = NumberOf(memory);
    return session.region().Expose(*address);
  });
}

Error ReachPinned(Session& session, std::uint64_t* address) {
  if (session.region().IsManaged(*address)) return CUDA_SUCCESS;
  CUSPAN_RETURN_IF_FAILED(session.region().Expose(*address));
  if (!session.host_memory().any_registered() || !session.region().available()) [[likely]]
    return CUDA_SUCCESS;
  return PointAtRegistered(session, address);
}

Error PointAtRegistered(Session& session, const ContextConnection& connection,
                        std::span<std::byte> arguments, std::span<const std::uint32_t> sizes) {
  if (!session.host_memory().any_registered()) [[likely]]
    return CUDA_SUCCESS;
  if (!session.region().available() || connection.sharing() == Sharing::kNone) return CUDA_SUCCESS;
  for (const std::uint32_t bytes : sizes) {
    const std::span<std::byte> argument = arguments.first(bytes);
    arguments = arguments.subspan(bytes);
    std::uint64_t address = 0;
    for (std::size_t at = 0; at + sizeof address <= bytes; at += sizeof address) {
      std::memcpy(&address, argument.data() + at, sizeof address);
      CUSPAN_RETURN_IF_FAILED(PointAtRegistered(session, &address));
      std::memcpy(argument.data() + at, &address, sizeof address);
    }
  }
  return CUDA_SUCCESS;
}

Error FlagsOfPinned(const void* memory, unsigned* flags) {
  return WithSession([&](Session& session) -> Error {
    const auto range = session.host_memory().Find(memory, 1);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    // CUDA reports all such memory as mapped since unified addressing.
    *flags = (range->flags & ~unsigned{CU_MEMHOSTREGISTER_READ_ONLY}) | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
