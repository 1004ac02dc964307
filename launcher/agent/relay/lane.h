// A lane: a rank beside an agent that sends and receives bulk as the agent tells
// it, between the slots of channels that it maps. It sleeps while nothing is under way.
#pragma once

#include "launcher/agent/relay/ranks.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Serves this rank's agent until that ends the run, and ends in good order. A failure is one
// sentence; the process must then end, and with it the whole job.
Status ServeAsLane(Transport& transport, const Ranks& ranks);

}  // namespace cuspan
