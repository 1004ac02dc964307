// What a program is told of a device, from the description that came with the session.
// Pure functions.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "structs.gen.h"

namespace cuspan {

// As the device's driver says; 0 when it says nothing. `attribute` as in CUdevice_attribute.
inline int AttributeOf(const DeviceDescription& device, int attribute) {
  const auto index = static_cast<std::size_t>(attribute);
  return attribute >= 0 && index < device.attributes.size() ? device.attributes[index] : 0;
}

// The same as a program sees it: what a device can do with the memory, the
// processes and the files of its own host is not offered to a program on
// another, nor is what this library does not support yet.
int VisibleAttribute(const DeviceDescription& device, int attribute);

// What streams of the device may have; both 0 when it knows no priorities. The
// driver's own range is not part of a description: this is the range of devices
// since compute capability 7.0, and drivers clamp what lies outside of theirs.
struct PriorityRange {
  int least;
  int greatest;  // The smaller number.
};
PriorityRange PrioritiesOf(const DeviceDescription& device);

}  // namespace cuspan
