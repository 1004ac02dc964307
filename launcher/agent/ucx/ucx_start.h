// How the agents of a run over UCX come together.
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
  std::optional<OtherAgents> others;  // Of the head agent; after the transport they end.
  std::unique_ptr<Transport> transport;
  std::shared_ptr<LaneThreads> lanes;  // None where the agent moves bulk itself.
  std::vector<ControlSocket> sockets;  // To them.

  // For the agent, which is to be destroyed before this; once.
  AgentLinks Links() { return {transport.get(), transport->size(), std::move(sockets)}; }
};

// To be called first: this process becomes the agent that is linked with UCX, unless it is that. A
// failure says why it can not.
Status BecomeUcxAgent(char** arguments);

// The head agent's part: starts the others and waits for them. A failure names the host.
Result<UcxRun> HoldUcxRun(const AgentOptions& options, const InstallPaths& paths,
                          const Environment& environment, const RunKey& key);
// Another agent's.
Result<UcxRun> AttendUcxRun(const AgentOptions& options, const Invitation& invitation);

}  // namespace cuspan
