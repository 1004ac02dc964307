// Batch systems: in whose job a process is. The one place that knows how that is seen.
#pragma once

#include <optional>
#include <string_view>

#include "common/settings.h"

namespace cuspan {

enum class BatchSystem { kNone, kSlurm, kPbs, kLsf, kGridEngine };

// --- By variable: those that a system sets in its jobs, from the manuals: sbatch(1), qsub(1B) of
// --- OpenPBS, "Environment variable reference" of IBM Spectrum LSF 10.1, qsub(1) of Grid Engine.

// The one that marks a job; empty for none. Grid Engine's JOB_ID is a name that others use as well.
constexpr std::string_view JobVariable(BatchSystem system) {
  switch (system) {
    case BatchSystem::kSlurm:
      return "SLURM_JOB_ID";
    case BatchSystem::kPbs:
      return "PBS_JOBID";
    case BatchSystem::kLsf:
      return "LSB_JOBID";
    case BatchSystem::kGridEngine:
      return "PE_HOSTFILE";
    case BatchSystem::kNone:
      break;
  }
  return {};
}

// Of a process that srun has started: the number of its step, and its rank there.
inline constexpr const char* kSlurmStepVariable = "SLURM_STEP_ID";
inline constexpr const char* kSlurmRankVariable = "SLURM_PROCID";

// The system in whose job a process with such variables is; kNone also where CUSPAN_BATCH says that
// jobs do not count. find(name) → what is found, or what is false.
template <typename Find>
BatchSystem BatchSystemBy(const Find& find) {
  if (const auto setting = find(settings::kBatch.name); setting && *setting == "off")
    return BatchSystem::kNone;
  for (const BatchSystem system :
       {BatchSystem::kSlurm, BatchSystem::kPbs, BatchSystem::kLsf, BatchSystem::kGridEngine})
    if (find(JobVariable(system))) return system;
  return BatchSystem::kNone;
}

}  // namespace cuspan
