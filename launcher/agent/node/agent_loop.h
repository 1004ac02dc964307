// The loop of an agent: sockets, children, timers and, where there are other
// agents, the relay.
#pragma once

#include <functional>

#include "launcher/agent/base/bell_listener.h"
#include "launcher/agent/base/bell_ringer.h"
#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// What lets an agent sleep whose transport wakes it: one of the two, by what wakes it first after a
// pause. The head agent's programs ring its bell, the others hear of them from the network.
struct AgentSleep {
  std::unique_ptr<BellRinger> on_bell;           // It watches the poller.
  std::unique_ptr<BellListener> on_descriptors;  // The poller watches it.
};

// Handles events until `step`, called after each round, returns false. Without a
// relay it sleeps until something happens. With one it looks at the transport as well: by stages it
// spins, yields, and then sleeps as `sleep` has it, with the transport watched by the poller; where
// that has neither, it naps on `bell`, longer the longer nothing has moved.
void RunAgentLoop(Poller& poller, Relay* relay, Bell* bell, AgentSleep& sleep,
                  const std::function<bool()>& step) CUSPAN_REQUIRES(agent_thread);

}  // namespace cuspan
