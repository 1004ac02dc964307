// Recognises the batch job of a process. Only this file reads the batch systems' variables for it.
#pragma once

#include <optional>
#include <string_view>

#include "common/settings.h"

namespace cuspan {

enum class BatchSystem { kNone, kSlurm, kPbs, kLsf, kGridEngine };

// --- Variables of jobs. Sources: sbatch(1); qsub(1B) of OpenPBS; "Environment variable reference"
// of
// --- IBM Spectrum LSF 10.1; qsub(1) of Grid Engine.

// The variable marking a job; empty if none. Grid Engine's JOB_ID is ambiguous: other software uses
// it, too.
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

// Set for a process under srun: the number of its step, and its rank there.
inline constexpr const char* kSlurmStepVariable = "SLURM_STEP_ID";
inline constexpr const char* kSlurmRankVariable = "SLURM_PROCID";

// The batch system of a process with these variables; kNone also if CUSPAN_BATCH is off. find(name)
// returns the value, or nothing.
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
