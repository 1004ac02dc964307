// The PTX of a module, where it tells what the driver runs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/status.h"

namespace cuspan::proxy {

// The PTX in `image`, which fatbin::CheckImage has accepted, for a device of `capability` (10 ×
// major + minor): of the newest architecture that it can be compiled for, unless there is machine
// code for a newer one that the driver would run in its place. The two may be of different sources:
// what a program does depends on the architecture. kNotFound says that there is none such.
Result<std::string> FindPtx(std::span<const std::byte> image, std::uint32_t capability);

}  // namespace cuspan::proxy
