// The loop of an agent: sockets, children, timers and, where there are other
// agents, the relay.
#pragma once

#include <functional>

#include "launcher/agent/poller.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// Handles events until `step`, called after each round, returns false. Without a
// relay it sleeps until something happens. With one it looks at MPI as well, which
// wakes nobody: by stages it spins, yields, and naps on `bell`, longer the
// longer nothing has moved.
void RunAgentLoop(Poller& poller, Relay* relay, Bell* bell, const std::function<bool()>& step);

}  // namespace cuspan
