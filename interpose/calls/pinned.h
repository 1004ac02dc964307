// Pinned host memory: allocated by this library, or the program's own and registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// `flags` as in CU_MEMHOSTALLOC_…, same in the runtime. *memory is null for 0 bytes.
Error AllocatePinned(std::size_t bytes, unsigned flags, void** memory);
// Waits for all devices. CUDA_ERROR_INVALID_VALUE if not from AllocatePinned.
Error FreePinned(void* memory);

// `flags` as in CU_MEMHOSTREGISTER_….
Error RegisterPinned(void* memory, std::size_t bytes, unsigned flags);
// Waits for all devices.
Error UnregisterPinned(void* memory);

// *address: the memory's address for kernels.
Error DeviceAddressOfPinned(void* memory, std::uint64_t* address);
// Replaces an address of page-locked memory by the devices' address, for work writing there. Memory
// not used by devices yet is exposed to them. Other addresses stay unchanged.
Error ReachPinned(Session& session, std::uint64_t* address);
// Calls use(address for work on devices) → Error to post work of `worker` writing
// [address, address + bytes).
template <typename Use>
Error WritePinned(Session& session, ContextConnection& worker, std::uint64_t address,
                  std::uint64_t bytes, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(ReachPinned(session, &address));
  RegisteredMemory& registered = session.region().registered();
  // The program's changes go first.
  if (!registered.BeforeCopy(address, bytes)) [[likely]]
    return use(address);
  const Error result = use(address);
  worker.Worked(worker.LastPosted());
  registered.AfterCopy(address, bytes, true);
  return result;
}
// Kernels use registered memory at another address than the host. Replaces host pointers to it, in
// arguments or at multiples of their size inside arguments, by the kernels' addresses. `arguments`:
// packed without gaps; `sizes`: in bytes.
Error PointAtRegistered(Session& session, const ContextConnection& connection,
                        std::span<std::byte> arguments, std::span<const std::uint32_t> sizes);
// *flags: given at its allocation or registration.
Error FlagsOfPinned(const void* memory, unsigned* flags);

}  // namespace cuspan
