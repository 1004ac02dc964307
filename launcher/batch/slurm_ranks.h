// Ranks of an MPI program started by srun: a step of the surrounding Slurm job, beside the agents'
// steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/batch/slurm_job.h"
#include "launcher/host/environment.h"
#include "launcher/run/mpi_app.h"

namespace cuspan {

// Pure: command line for starting `program` by `app.mpirun`, an srun with options of the user. The
// step waits for no resources of other steps, and takes no GPUs from the agents. The variables
// `names` reach the ranks, independent of the user's --export. `nodes` are the job's; hosts named
// by the user (`own_name` is this one) must be in one component. Without named hosts, Slurm places
// the ranks, and `nodes` may be empty.
Result<std::vector<std::string>> SlurmRanksCommand(const MpiProgram& app,
                                                   const std::vector<SlurmNode>& nodes,
                                                   std::string_view own_name,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<std::string>& program);

// Removes variables that srun would apply to the ranks' step although they describe the job or the
// surrounding step. Also removes variables of a surrounding MPI program.
void StripForRanks(Environment& environment);

}  // namespace cuspan
