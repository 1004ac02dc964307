// Roles of an agent's threads.
#pragma once

#include "common/thread_role.h"

namespace cuspan {

// Role of the thread running the agent's loop: sessions, devices and the relay, nearly all of an
// agent's work. Other threads serve lanes and bells.
using AgentThread = ThreadRole<struct AgentThreadTag>;
inline AgentThread agent_thread;

}  // namespace cuspan
