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
// Replaces an address of page-locked memory by the one at which work on devices finds it, and gives
// devices that memory if none has used it. Others stay as they are.
Error ReachPinned(Session& session, std::uint64_t* address);
// Kernels find registered memory at another address than the host. Where an argument is, or holds
// at a multiple of its own size, a pointer of the host to such memory, it becomes that of kernels.
// `arguments`: one behind the other; `sizes`: their bytes.
Error PointAtRegistered(Session& session, const Link& link, std::span<std::byte> arguments,
                        std::span<const std::uint32_t> sizes);
// As it was allocated or registered with.
Error FlagsOfPinned(const void* memory, unsigned* flags);

}  // namespace cuspan
