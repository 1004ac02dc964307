// Raw MPI between this host and another, to compare with: started as agents are.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace cuspan::bench {

// Sets, for all that this process starts, what MPI shall use: tcp, shm (shared memory), ucx, or
// auto (what agents take by themselves). kInvalid for anything else.
Status ChooseTransport(const std::string& name);

// Runs raw-mpi, which lies in `folder`, as so many `ranks` here and as many on `host` with `words`
// and returns the numbers that it printed. CUSPAN_MPIRUN_ARGS goes to mpirun as for agents.
Result<std::vector<double>> RawMpi(const std::string& folder, const std::string& host, int ranks,
                                   const std::vector<std::string>& words);

}  // namespace cuspan::bench
