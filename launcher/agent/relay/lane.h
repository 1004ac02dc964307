// A lane: a process beside the agent, or a thread in it. It sends and receives bulk data as ordered
// by its agent, between the slots of channels it maps. It sleeps while nothing is in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "launcher/agent/relay/transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// Serves the agent at the other end of the socket until the agent ends the run. The transport is
// used by this function alone and is not shut down. `peers`: transport ranks of the same lane in
// the other agents, by agent. At the end it calls `linger`; memory still in use by the transport
// stays mapped until `linger` returns. If an error is returned (one sentence), the agent must end.
Status ServeLane(Transport& transport, std::vector<std::uint32_t> peers, ControlSocket socket,
                 const std::function<void()>& linger);

}  // namespace cuspan
