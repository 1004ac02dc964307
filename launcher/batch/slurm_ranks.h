// The ranks of an MPI program that srun starts: a step of the Slurm job around, beside the agents'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/batch/slurm_job.h"
#include "launcher/host/environment.h"
#include "launcher/run/mpi_app.h"

namespace cuspan {

// Pure: the command line that starts `program` by `app.mpirun`, an srun and the user's options of
// it. The step waits for nothing that others of the job have, and takes none of its GPUs from the
// agents. Variables `names` reach the ranks whatever --export the user has among the options.
// `nodes` are the job's: named hosts, of which `own_name` is this one, must be among those of one
// component. Without named hosts Slurm places the ranks, and `nodes` may be empty.
Result<std::vector<std::string>> SlurmRanksCommand(const MpiApp& app,
                                                   const std::vector<SlurmNode>& nodes,
                                                   std::string_view own_name,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<std::string>& program);

// Removes what srun would take for options of the ranks' step although it is about the job, or
// about the step around; and what would tell ranks of another MPI program around theirs.
void StripForRanks(Environment& environment);

}  // namespace cuspan
