// Memory of the devices.
#pragma once

#include "interpose/calls/ways_in.h"

namespace cuspan {

// On the current device, which it opens; *address is 0 for no bytes.
Error Allocate(Session& session, std::size_t bytes, std::uint64_t* address);
// Rows of `width` bytes start at multiples of a pitch that suits every access.
Error AllocatePitched(Session& session, std::size_t width, std::size_t rows, std::size_t* pitch,
                      std::uint64_t* address);
// Whatever it is that starts there. Null opens the current device: the classic way to start CUDA.
Error Free(Session& session, std::uint64_t address);

// A part of the host's memory: see HostMemory. A copy into or out of it may still be under way.
Error WaitForDevices(Session& session);

}  // namespace cuspan
