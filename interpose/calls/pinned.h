// Pinned memory of the host: allocated by us, or the program's own and registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "interpose/calls/ways_in.h"

namespace cuspan {

// `flags` as in CU_MEMHOSTALLOC_…, which are the runtime's. Nothing for no bytes.
Error AllocatePinned(std::size_t bytes, unsigned flags, void** memory);
// Waits for all devices. CUDA_ERROR_INVALID_VALUE for what was not allocated so.
Error FreePinned(void* memory);

// `flags` as in CU_MEMHOSTREGISTER_….
Error RegisterPinned(void* memory, std::size_t bytes, unsigned flags);
// Waits for all devices.
Error UnregisterPinned(void* memory);

// Where kernels find the memory.
Error DeviceAddressOfPinned(void* memory, std::uint64_t* address);
// Replaces an address of page-locked memory by that of devices: see WritePinned.
Error ReachPinned(Session& session, std::uint64_t* address);
// Calls use(address at which work on devices finds the memory) → Error, which posts work that
// writes there. Page-locked memory is given to devices if none has used it; other addresses stay as
// they are.
template <typename Use>
Error WritePinned(Session& session, std::uint64_t address, Use&& use) {
  std::uint64_t reached = address;
  CUSPAN_RETURN_IF_FAILED(ReachPinned(session, &reached));
  if (reached == address) return use(reached);
  // What the program has written to registered memory comes first.
  session.region().registered().BeforeLaunch();
  const Error result = use(reached);
  session.region().registered().AfterWork();
  return result;
}
// Kernels find registered memory at another address than the host. Where an argument is, or holds
// at a multiple of its own size, a pointer of the host to such memory, it becomes that of kernels.
// `arguments`: one behind the other; `sizes`: their bytes.
Error PointAtRegistered(Session& session, const ContextConnection& connection,
                        std::span<std::byte> arguments, std::span<const std::uint32_t> sizes);
// As it was allocated or registered with.
Error FlagsOfPinned(const void* memory, unsigned* flags);

}  // namespace cuspan
