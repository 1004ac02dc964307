// The devices of a run, chosen from what its agents found, and their addresses. Pure.
#pragma once

#include <optional>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

// All that the agents found, in the order of the app's numbering.
struct FoundDevices {
  std::vector<AgentInventory> agents;
};

struct RunDevices {
  std::vector<DeviceDescription> devices;
  std::vector<std::string> notes;
};

// At most its limit from each agent, and a GPU that two agents of one host see only
// once; then the first `wanted` (all when not given). A failure says what was
// wanted and what there is.
Result<RunDevices> ChooseDevices(const FoundDevices& found, std::optional<std::uint32_t> wanted);

// The window of each device: equal powers of two of at least 256 GiB and four
// times the largest memory, side by side from 0x1800'0000'0000, all below
// 0x5500'0000'0000 (DESIGN.md 5). A failure when they do not fit.
Result<std::vector<AddressWindow>> PlanWindows(const std::vector<DeviceDescription>& devices);

}  // namespace cuspan
