// Descriptions of the driver's devices, for processes without a driver.
#pragma once

#include "protocol/channel/socket.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Describes each device of `driver`: all properties available without a context, at least one
// device. `fresh`: by the driver itself, otherwise from the cache if it is still true
// (known_devices.h). The agent fills in the host and its own rank.
Result<std::vector<DeviceDescription>> ReadInventory(const std::string& driver, bool fresh);

// The same for a loaded driver.
Result<std::vector<DeviceDescription>> DescribeDevices(const LoadedDriver& driver);

}  // namespace cuspan::proxy
