// Tables of devices printed by cuspan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// "1.5 GiB"
std::string ByteText(std::uint64_t bytes);
// Columns as wide as their widest cell, separated by two blanks.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows);

// Table with a line per device, numbered as in a run with all of them.
std::string DeviceTable(const RunReady& found);
// The same as a JSON array.
std::string DeviceJson(const RunReady& found);
// Use of each device by each session, for `cuspan run --stats`. `relay` as in RunReady.
std::string StatisticsTable(const std::vector<DeviceReport>& reports, const std::string& relay);

}  // namespace cuspan
