// What the proxies of a run that shares its GPUs need for it.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/node/node_context.h"

namespace cuspan {

// Of one proxy. Nothing in a run that has its GPUs to itself.
struct ShareLocation {
  UniqueFd table;         // Of the device: an open file description of its own.
  std::uint32_t run = 0;  // The place of the run there.
};

// For a proxy on `device`, which is of this node. Whichever agent has taken the GPU for the run,
// its table is there.
Result<ShareLocation> FindShareLocation(const NodeContext& context, const DeviceDescription& device)
    CUSPAN_REQUIRES(agent_thread);

}  // namespace cuspan
