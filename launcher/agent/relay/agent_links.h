// How an agent reaches the others of its run.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/agent/relay/transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

struct AgentLinks {
  Transport* transport = nullptr;    // None in a run of one agent. Outlives the agent.
  std::uint32_t agents = 1;          // Ranks of the transport, the head agent's first.
  std::vector<ControlSocket> lanes;  // To this agent's lanes; none: it moves bulk itself.
};

}  // namespace cuspan
