// An app that is an MPI program: the command line that starts its ranks, by its own mpirun, which
// need not be the agents'. Pure but for FindMpiKind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/run/plan.h"

namespace cuspan {

// `cuspan run -np …`; no ranks: the app is started as it is.
struct MpiApp {
  std::uint32_t ranks = 0;
  std::uint32_t devices_a_rank = 0;  // 0: each rank sees all devices of the run.
  std::vector<HostRequest> hosts;    // Where its ranks run, how many on each; none: here.
  std::vector<std::string> mpirun = {"mpirun"};  // With what the user adds to it.
  // In the job of a batch system, where mpirun by itself would have ranks on all of its nodes.
  bool in_job = false;
};

// How an mpirun hands a rank the environment, and is told hosts. Slurm's srun starts ranks, too.
enum class MpiKind { kOpenMpi, kHydra, kSrun };

// Whether the user has told mpirun where the ranks shall be, or by what it starts them.
bool SaysWhere(const std::vector<std::string>& mpirun);

// Asks the app's mpirun for its version. A failure says what to do.
Result<MpiKind> FindMpiKind(const MpiApp& app);
// Whether the app's mpirun is an srun by its name.
bool IsNamedSrun(const MpiApp& app);

// The whole command line for `program`; that of srun has a place of its own
// (batch/slurm_ranks.h). Variables `names` reach ranks on other hosts.
std::vector<std::string> MpiAppCommand(const MpiApp& app, MpiKind kind,
                                       const std::vector<std::string>& names,
                                       const std::vector<std::string>& program);

}  // namespace cuspan
