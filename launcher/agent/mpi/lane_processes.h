// Lanes where MPI is the transport: ranks beside an agent.
#pragma once

#include <vector>

#include "common/status.h"
#include "launcher/agent/mpi/ranks.h"
#include "launcher/agent/relay/transport.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// The agent's part: invites its lanes and waits until they have come.
Result<std::vector<ControlSocket>> InviteLanes(Transport& transport, const Ranks& ranks);

// A lane's: serves this rank's agent until that ends the run, and ends in good order. A failure is
// one sentence; the process must then end, and with it the whole job.
Status ServeAsLane(Transport& transport, const Ranks& ranks);

}  // namespace cuspan
