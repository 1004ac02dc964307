// The transport over MPI (Open MPI 4.1; any MPI-3). The only place that knows MPI.
#pragma once

#include <memory>

#include "common/status.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// To be called first in an MPI job: this process becomes the agent that is linked with MPI, unless
// it is that. A failure says why it can not.
Status BecomeMpiAgent(char** arguments);

// Joins the MPI job that this process was started in; waits for its other ranks.
// To be called once, from the thread that uses the transport. Errors of MPI end the job.
Result<std::unique_ptr<Transport>> StartMpiTransport(int* argc, char*** argv);

}  // namespace cuspan
