// Access to a shared GPU's table, for the proxies of a run sharing its GPUs.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/node_context.h"

namespace cuspan {

// Data for one proxy. Empty if the run has its GPUs exclusively.
struct ShareLocation {
  UniqueFd table;         // The device's table, in its own open file description.
  std::uint32_t run = 0;  // Slot of the run in the table.
};

// Data for a proxy on `device` of this node. The table exists no matter which agent has taken the
// GPU for the run.
Result<ShareLocation> FindShareLocation(const NodeContext& context, const DeviceDescription& device)
    CUSPAN_REQUIRES(agent_thread);

}  // namespace cuspan
