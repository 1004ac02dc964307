// Connections of an agent to the others of its run.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/agent/relay/transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

struct AgentLinks {
  Transport* transport = nullptr;  // Null in a run of one agent. Outlives the agent.
  // Number of agents: ranks of the transport, the head agent's first.
  std::uint32_t agents = 1;
  std::vector<ControlSocket> lanes;  // Sockets to its lanes; empty: moves bulk itself.
};

}  // namespace cuspan
