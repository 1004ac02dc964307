// A session's use of a device, as counted in the channel between them.
#pragma once

#include <vector>

#include "protocol/channel/channel.h"

namespace cuspan {

// Counts so far. The program writes them and may write anything there.
DeviceUse ReadUse(const ChannelStatistics& statistics);

// Lines of a Python program with the longest waits so far, at most five. The same caution applies.
std::vector<WaitTime> ReadWaits(const ChannelStatistics& statistics);

// Adds `more` to `sum`, kind by kind. Sums wrap around.
void AddUse(DeviceUse& sum, const DeviceUse& more);
// Adds line by line. Keeps the five longest, in descending order.
void AddWaits(std::vector<WaitTime>& sum, const std::vector<WaitTime>& more);

}  // namespace cuspan
