// A lane: what sends and receives bulk as its agent tells it, between the slots of channels that it
// maps: a process beside the agent, or a thread in it. It sleeps while nothing is under way.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "launcher/agent/relay/transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// Serves the agent at the other end of the socket until that ends the run, which leaves the
// transport as it is; it is used by this alone meanwhile. `peers`: by agent, which rank of the
// transport the same lane of that agent is. At last it calls `linger`, until whose end memory stays
// that the transport may still use. A failure is one sentence: the agent must then end.
Status ServeLane(Transport& transport, std::vector<std::uint32_t> peers, ControlSocket socket,
                 const std::function<void()>& linger);

}  // namespace cuspan
