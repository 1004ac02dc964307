// What this process does with a device of the run, if it uses CUDA at all.
#pragma once

#include <cstdint>
#include <optional>

#include "structs.gen.h"

namespace cuspan::nvml {

// Whether it has a context on the device. Begins none.
bool UsedByThisProcess(const DeviceDescription& device);

// Bytes of a device's memory that are not free for this process; nothing where it does not use the
// device, or it is lost.
std::optional<std::uint64_t> UsedHere(const DeviceDescription& device);

}  // namespace cuspan::nvml
