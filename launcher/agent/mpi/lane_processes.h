// Lanes over MPI: further ranks beside an agent.
#pragma once

#include <vector>

#include "common/status.h"
#include "launcher/agent/mpi/ranks.h"
#include "launcher/agent/relay/transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// The agent's part: invites its lanes and blocks until all have connected.
Result<std::vector<ControlSocket>> InviteLanes(Transport& transport, const Ranks& ranks);

// The lane's part: serves this rank's agent until the agent ends the run, then shuts down the
// transport. If an error is returned (one sentence), the process must end, and the whole job ends
// with it.
Status ServeAsLane(Transport& transport, const Ranks& ranks);

}  // namespace cuspan
