// The loop of an agent: sockets, children, timers and, where there are other
// agents, the relay.
#pragma once

#include <functional>

#include "launcher/agent/bell_ringer.h"
#include "launcher/agent/poller.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// Handles events until `step`, called after each round, returns false. Without a
// relay it sleeps until something happens. With one it looks at the transport as well: by stages it
// spins, yields, and then, where `ringer` watches the poller, which watches the transport, it
// sleeps on `bell`; without, it naps there, longer the longer nothing has moved.
void RunAgentLoop(Poller& poller, Relay* relay, Bell* bell, BellRinger* ringer,
                  const std::function<bool()>& step);

}  // namespace cuspan
