// What cuspan prints about devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// "1.5 GiB"
std::string ByteText(std::uint64_t bytes);
// Columns as wide as their widest cell, two blanks apart.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows);

// For a person: a line a device, numbered as a run with all of them sees them.
std::string DeviceTable(const RunReady& found);
// The same as a JSON array.
std::string DeviceJson(const RunReady& found);
// What each session did with each device: `cuspan run --stats`. `relay` as in RunReady.
std::string StatisticsTable(const std::vector<DeviceReport>& reports, const std::string& relay);

}  // namespace cuspan
