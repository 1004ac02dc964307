// Handles of the client's objects: streams, events, kernels, modules, signals.
#pragma once

#include <cstdint>

namespace cuspan {

// Returns a number never used before in this process. It is no small value (0, 1 and 2 are default
// streams), and no address a program could take for its own.
std::uint64_t NextHandle();

}  // namespace cuspan
