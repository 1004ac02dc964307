// Descriptions of the driver's devices, for processes without a driver.
#pragma once

#include "protocol/channel/socket.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Describes each device of `driver`: all properties available without a context. On failure,
// `problem` gives the reason. The agent fills in the host and its own rank.
InventoryAnswer ReadInventory(const std::string& driver);

// The same for a loaded driver.
Result<std::vector<DeviceDescription>> DescribeDevices(const LoadedDriver& driver);

}  // namespace cuspan::proxy
