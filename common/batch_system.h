// Recognises the batch job around a process. No other place looks at the systems' variables for it.
#pragma once

#include <optional>
#include <string_view>

#include "common/settings.h"

namespace cuspan {

enum class BatchSystem { kNone, kSlurm, kPbs, kLsf, kGridEngine };

// --- Variables of jobs, from the manuals: sbatch(1), qsub(1B) of
// --- OpenPBS, "Environment variable reference" of IBM Spectrum LSF 10.1, qsub(1) of Grid Engine.

// Marks a job; empty for none. Not Grid Engine's JOB_ID: other software uses that name, too.
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

// Of a process under srun: the number of its step, and its rank there.
inline constexpr const char* kSlurmStepVariable = "SLURM_STEP_ID";
inline constexpr const char* kSlurmRankVariable = "SLURM_PROCID";

// The batch system of a process with such variables; kNone also where CUSPAN_BATCH is off.
// find(name) → the value, or nothing.
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
