// Meeting of a run's agents: each checks the other's secret and version, and the head agent gets
// the devices of the others.
#pragma once

#include <vector>

#include "launcher/agent/relay/transport.h"
#include "launcher/run/run_key.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// The head agent's part: invites the others and blocks until all inventories have arrived, returned
// by rank from 1. `agents`: number of agents, including itself. An error is one sentence naming
// both hosts.
Result<std::vector<AgentInventory>> MeetAgents(Transport& transport, std::uint32_t agents,
                                               const AgentHello& own);

// First half of another agent's part: receives the head agent's invitation with the run's secret.
// `key`: the run's, if this agent already knows it. Errors are reported to the head agent too.
Result<AgentHello> AwaitInvitation(Transport& transport, const RunKey* key,
                                   const std::string& own_host);
// Second half.
Status SendInventory(Transport& transport, const AgentInventory& inventory);

}  // namespace cuspan
