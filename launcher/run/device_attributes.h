// Device attributes used by the launcher and the agents.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops.gen.h"

namespace cuspan {

// Values of CUdevice_attribute, from cuda.h.
inline constexpr std::size_t kAttributeClockRate = 13;
inline constexpr std::size_t kAttributeMultiprocessors = 16;
inline constexpr std::size_t kAttributeComputeMode = 20;
inline constexpr std::size_t kAttributeMemoryClockRate = 36;
inline constexpr std::size_t kAttributeCapabilityMajor = 75;
inline constexpr std::size_t kAttributeCapabilityMinor = 76;

// 0 if the device does not report the attribute.
inline std::int32_t Attribute(const DeviceDescription& device, std::size_t number) {
  return number < device.attributes.size() ? device.attributes[number] : 0;
}

}  // namespace cuspan
