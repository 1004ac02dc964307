// Start-up of the agents of a run over UCX.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/agent/base/agent_options.h"
#include "launcher/agent/relay/agent_links.h"
#include "launcher/agent/relay/transport.h"
#include "launcher/agent/ucx/other_agents.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"

namespace cuspan {

class LaneThreads;

struct UcxRun {
  std::optional<OtherAgents> others;  // Head agent only; outlives the transport.
  std::unique_ptr<Transport> transport;
  std::shared_ptr<LaneThreads> lanes;  // Null if the agent moves bulk itself.
  std::vector<ControlSocket> sockets;  // Sockets to the lanes.

  // Returns the agent's links; call it once. The agent must be destroyed before this object.
  AgentLinks Links() { return {transport.get(), transport->size(), std::move(sockets)}; }
};

// Call it first. If this process is the agent without UCX, it becomes the agent linked with UCX,
// and the function returns only on failure.
Status BecomeUcxAgent(char** arguments);

// The head agent's part: starts the others and waits for them. Errors name the host.
Result<UcxRun> HoldUcxRun(const AgentOptions& options, const InstallPaths& paths,
                          const Environment& environment, const RunKey& key);
// The worker agents' part.
Result<UcxRun> AttendUcxRun(const AgentOptions& options, const Invitation& invitation);

}  // namespace cuspan
