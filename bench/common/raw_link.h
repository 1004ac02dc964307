// Raw MPI and raw UCX between this host and another, to compare with: started as agents of MPI are.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/run/plan.h"

namespace cuspan::bench {

// Sets, for all that this process starts, what MPI and UCX shall use: tcp, shm (shared memory), ucx
// (MPI over UCX), or auto (what agents take by themselves). kInvalid for anything else.
Status ChooseTransport(const std::string& name);

// Runs raw-mpi or raw-ucx, which lie in `folder`, as so many `ranks` here and as many on `host`
// with `words` and returns the numbers that it printed. CUSPAN_MPIRUN_ARGS goes to mpirun as for
// agents.
Result<std::vector<double>> RunRaw(const std::string& folder, RelayKind kind,
                                   const std::string& host, int ranks,
                                   const std::vector<std::string>& words);
// "MPI" or "UCX".
const char* RawName(RelayKind kind);

}  // namespace cuspan::bench
