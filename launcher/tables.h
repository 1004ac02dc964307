// What cuspan prints about devices.
#pragma once

#include <string>
#include <vector>

#include "protocol/api/types.h"

namespace cuspan {

// For a person: a line a device, numbered as the app sees them.
std::string DeviceTable(const std::vector<DeviceDescription>& devices);
// The same as a JSON array.
std::string DeviceJson(const std::vector<DeviceDescription>& devices);
// What each session did with each device: `cuspan run --stats`.
std::string StatisticsTable(const std::vector<DeviceReport>& reports);

}  // namespace cuspan
