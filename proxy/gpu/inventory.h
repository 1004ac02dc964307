// What the devices of a driver are, for those who have no driver.
#pragma once

#include "protocol/channel/socket.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Describes every device of `driver`: all that is asked about a device without
// a context. `problem` says why there is none. The host and the agent's rank
// are left for the agent to fill in.
InventoryAnswer TakeInventory(const std::string& driver);

// The same of a driver that is loaded.
Result<std::vector<DeviceDescription>> DescribeDevices(const LoadedDriver& driver);

}  // namespace cuspan::proxy
