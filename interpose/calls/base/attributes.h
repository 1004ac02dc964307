// Attributes of a device, from the description sent with the session. Pure functions.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "structs.gen.h"

namespace cuspan {

// Value from the device's driver; 0 if unknown. `attribute` as in CUdevice_attribute.
inline int AttributeOf(const DeviceDescription& device, int attribute) {
  const auto index = static_cast<std::size_t>(attribute);
  return attribute >= 0 && index < device.attributes.size() ? device.attributes[index] : 0;
}

// Value reported to the program. Abilities tied to memory, processes and files of the device's own
// host are not reported to a program on another host; nor are those not supported yet.
int VisibleAttribute(const DeviceDescription& device, int attribute);

// Stream priorities of the device; both 0 if it has none. The description lacks the driver's own
// range. This is the range of devices since compute capability 7.0; drivers clamp values outside
// theirs.
struct PriorityRange {
  int least;
  int greatest;  // The smaller number.
};
PriorityRange PrioritiesOf(const DeviceDescription& device);

}  // namespace cuspan
