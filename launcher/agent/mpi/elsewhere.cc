// Stubs of the agent without MPI: runs of one node or over UCX need no MPI library.
// cuspan-agent-mpi is a program beside it.
#include "launcher/agent/base/agent_program.h"
#include "launcher/agent/mpi/mpi_transport.h"

namespace cuspan {

Status BecomeMpiAgent(char** arguments) {
  return BecomeAgentProgram("mpi", "install cuspan again", arguments);
}

Result<std::unique_ptr<Transport>> StartMpiTransport(int*, char***, std::uint32_t) {
  return Status::Internal("this agent has no MPI");
}

}  // namespace cuspan
