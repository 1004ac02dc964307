// Of the agent that is linked with no MPI, so that one node, or a run over UCX, needs none: the one
// that is stands beside it.
#include "launcher/agent/base/agent_program.h"
#include "launcher/agent/mpi/mpi_transport.h"

namespace cuspan {

Status BecomeMpiAgent(char** arguments) {
  return BecomeAgentProgram("mpi", "install cuspan again", arguments);
}

Result<std::unique_ptr<Transport>> StartMpiTransport(int*, char***) {
  return Status::Internal("this agent has no MPI");
}

}  // namespace cuspan
