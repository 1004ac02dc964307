// What a session did with a device, as the channel between them counts it.
#pragma once

#include <vector>

#include "protocol/channel/channel.h"

namespace cuspan {

// Until now. The program counts, and may write there whatever it likes.
DeviceUse ReadUse(const ChannelStatistics& statistics);

// The same for the lines of a Python program that waited longest, at most five.
std::vector<WaitTime> ReadWaits(const ChannelStatistics& statistics);

// Adds `more` to `sum`, kind by kind. Sums wrap around.
void AddUse(DeviceUse& sum, const DeviceUse& more);
// The same line by line. The five longest stay, the longest first.
void AddWaits(std::vector<WaitTime>& sum, const std::vector<WaitTime>& more);

}  // namespace cuspan
