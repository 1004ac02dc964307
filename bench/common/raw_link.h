// Raw MPI and raw UCX between this host and another, for comparison. Started like agents of MPI.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/run/plan.h"

namespace cuspan::bench {

// Sets the transport of MPI and UCX for all processes started by this one: tcp, shm (shared
// memory), ucx (MPI over UCX), or auto (as agents choose). kInvalid for anything else.
Status ChooseTransport(const std::string& name);

// Runs raw-mpi or raw-ucx in `folder` with the arguments `words`, and returns the numbers printed.
// Starts `ranks` ranks here and as many on `host`. Like agents, passes CUSPAN_MPIRUN_ARGS to
// mpirun.
Result<std::vector<double>> RunRaw(const std::string& folder, RelayKind kind,
                                   const std::string& host, int ranks,
                                   const std::vector<std::string>& words);
// "MPI" or "UCX".
const char* RawName(RelayKind kind);

}  // namespace cuspan::bench
