// Numbers for what the client makes: streams, events, kernels, modules, signals.
#pragma once

#include <cstdint>

namespace cuspan {

// A number never used before in this process: no small value (0, 1 and 2 are
// default streams), no address that a program could take for its own.
std::uint64_t NextHandle();

}  // namespace cuspan
