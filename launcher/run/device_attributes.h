// Attributes of a device that the launcher and the agents look at.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops.gen.h"

namespace cuspan {

// Numbers of CUdevice_attribute, from cuda.h.
inline constexpr std::size_t kAttributeClockRate = 13;
inline constexpr std::size_t kAttributeMultiprocessors = 16;
inline constexpr std::size_t kAttributeComputeMode = 20;
inline constexpr std::size_t kAttributeMemoryClockRate = 36;
inline constexpr std::size_t kAttributeCapabilityMajor = 75;
inline constexpr std::size_t kAttributeCapabilityMinor = 76;

// 0 where a device tells none of that number.
inline std::int32_t Attribute(const DeviceDescription& device, std::size_t number) {
  return number < device.attributes.size() ? device.attributes[number] : 0;
}

}  // namespace cuspan
