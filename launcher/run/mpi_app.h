// An MPI program as the program of a run: the command line for its ranks, with its own mpirun. Its
// MPI may differ from the agents'. Pure except FindMpiKind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/run/plan.h"

namespace cuspan {

// Options of `cuspan run -np …`; 0 ranks: the program is started directly.
struct MpiProgram {
  std::uint32_t ranks = 0;
  std::uint32_t devices_a_rank = 0;  // 0: each rank sees all devices of the run.
  // Hosts of the ranks, with the number on each; empty: this host.
  std::vector<HostRequest> hosts;
  std::vector<std::string> mpirun = {"mpirun"};  // Command with the user's options.
  // True in a batch job: mpirun's default would be to start ranks on all nodes of the job.
  bool in_job = false;
};

// Kinds of mpirun, by the way to pass the environment and hosts. Slurm's srun starts ranks too.
enum class MpiKind { kOpenMpi, kHydra, kSrun };

// True if the user's options choose the hosts of the ranks, or the way to start them.
bool ChoosesHosts(const std::vector<std::string>& mpirun);

// Runs the program's mpirun for its version. An error includes the remedy.
Result<MpiKind> FindMpiKind(const MpiProgram& app);
// True if the program's mpirun is named srun.
bool IsNamedSrun(const MpiProgram& app);

// Whole command line for `program`; for srun see batch/slurm_ranks.h. The variables `names` reach
// ranks on other hosts.
std::vector<std::string> MpiProgramCommand(const MpiProgram& app, MpiKind kind,
                                           const std::vector<std::string>& names,
                                           const std::vector<std::string>& program);

}  // namespace cuspan
