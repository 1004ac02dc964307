// Stubs of the agent linked with UCX.
#include "launcher/agent/mpi/mpi_transport.h"

namespace cuspan {

Status BecomeMpiAgent(char**) { return Status::Ok(); }

Result<std::unique_ptr<Transport>> StartMpiTransport(int*, char***, std::uint32_t) {
  return Status::Unsupported("cuspan-agent-ucx has no MPI: start cuspan-agent");
}

}  // namespace cuspan
