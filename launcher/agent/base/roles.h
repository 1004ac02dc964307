// Which of an agent's threads may do what.
#pragma once

#include "common/thread_role.h"

namespace cuspan {

// Runs the agent's loop, and serves sessions, devices and the relay: nearly all that an agent does.
// The others are those of lanes and bells.
using AgentThread = ThreadRole<struct AgentThreadTag>;
inline AgentThread agent_thread;

}  // namespace cuspan
