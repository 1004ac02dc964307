// Device memory.
#pragma once

#include "interpose/calls/base/ways_in.h"

namespace cuspan {

// Allocates on the current device, and opens it. *address is 0 for 0 bytes.
Error Allocate(Session& session, std::size_t bytes, std::uint64_t* address);
// Rows of `width` bytes start at multiples of a pitch aligned for every access.
Error AllocatePitched(Session& session, std::size_t width, std::size_t rows, std::size_t* pitch,
                      std::uint64_t* address);
// Frees an allocation of any kind. Null opens the current device: a common way to start CUDA.
Error Free(Session& session, std::uint64_t address);

// To be called before pinned memory is released (HostMemory): copies of it may be in flight.
Error WaitForDevices(Session& session);

}  // namespace cuspan
