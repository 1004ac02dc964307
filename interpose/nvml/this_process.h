// Use of a device by this process, through CUDA.
#pragma once

#include <cstdint>
#include <optional>

#include "structs.gen.h"

namespace cuspan::nvml {

// True if the process has a context on the device. Creates none.
bool UsedByThisProcess(const DeviceDescription& device);

// Bytes of device memory not free for this process. Empty if the process does not use the device,
// or the device is lost.
std::optional<std::uint64_t> UsedHere(const DeviceDescription& device);

}  // namespace cuspan::nvml
