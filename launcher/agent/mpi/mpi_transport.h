// Transport over MPI (Open MPI 4.1; any MPI-3). Only mpi_transport.cc uses MPI.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Call it first in an MPI job. If this process is the agent without MPI, it becomes the agent
// linked with MPI, and the function returns only on failure.
Status BecomeMpiAgent(char** arguments);

// Joins the MPI job of this process and waits for its other ranks. Threads: call it once, from the
// thread using the transport. MPI errors end the job. `lanes`: value of CUSPAN_LANES (ranks.h).
Result<std::unique_ptr<Transport>> StartMpiTransport(int* argc, char*** argv, std::uint32_t lanes);

}  // namespace cuspan
