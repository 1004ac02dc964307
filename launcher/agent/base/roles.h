// The roles of an agent's threads.
#pragma once

#include "common/thread_role.h"

namespace cuspan {

// Runs the agent's loop, and serves sessions, devices and the relay: nearly all of an agent's work.
// The others are those of lanes and bells.
using AgentThread = ThreadRole<struct AgentThreadTag>;
inline AgentThread agent_thread;

}  // namespace cuspan
