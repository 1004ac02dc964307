// Event loop of an agent: sockets, children, timers and, if there are other agents, the relay.
#pragma once

#include <functional>

#include "launcher/agent/base/bell_listener.h"
#include "launcher/agent/base/bell_ringer.h"
#include "launcher/agent/base/poller.h"
#include "launcher/agent/base/roles.h"
#include "launcher/agent/relay/relay.h"

namespace cuspan {

// Means of sleeping for an agent with a transport able to wake it. One of the two is set, according
// to the usual first event after a pause: programs ring the head agent's bell, and messages from
// the network wake worker agents.
struct AgentSleep {
  std::unique_ptr<BellRinger> on_bell;           // Watches the poller.
  std::unique_ptr<BellListener> on_descriptors;  // Watched by the poller.
  bool message = false;  // Set by the poller if the transport has woken the agent.
};

// Handles events until `step`, called after each round, returns false. Without a relay it sleeps
// until an event. With a relay it also polls the transport: it spins, yields, then sleeps as set in
// `sleep`, with the transport watched by the poller. If `sleep` is empty, it uses back-off sleeps
// on `bell` instead.
void RunAgentLoop(Poller& poller, Relay* relay, Bell* bell, AgentSleep& sleep,
                  const std::function<bool()>& step) CUSPAN_REQUIRES(agent_thread);

}  // namespace cuspan
