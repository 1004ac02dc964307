// How the agents of a run meet: each checks the other's secret and version, and
// tells the head agent which devices it has.
#pragma once

#include <vector>

#include "launcher/agent/relay/transport.h"
#include "launcher/run/run_key.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// The head agent's part: invites all others and collects what they have, by
// rank from 1; there are `agents` with itself. Waits for them. A failure is one sentence that names
// both hosts.
Result<std::vector<AgentInventory>> MeetAgents(Transport& transport, std::uint32_t agents,
                                               const AgentHello& own);

// Another agent's part, first half: the head agent's invitation, with the run's secret. `key` is
// the run's as this agent was told, if it was. After a failure the head agent knows it too.
Result<AgentHello> AwaitInvitation(Transport& transport, const RunKey* key,
                                   const std::string& own_host);
// Second half.
Status SendInventory(Transport& transport, const AgentInventory& inventory);

}  // namespace cuspan
