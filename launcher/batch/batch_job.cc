#include "launcher/batch/batch_job.h"

#include <algorithm>

#include "common/batch_system.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/batch/listed_run.h"
#include "launcher/batch/slurm_run.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

std::string_view BatchSetting(const Environment& environment) {
  return environment.Get(settings::kBatch.name).value_or("auto");
}

}  // namespace

Status UseBatchJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment) {
  switch (BatchSystemAround(environment)) {
    case BatchSystem::kSlurm:
      return UseSlurmJob(paths, options, environment);
    case BatchSystem::kPbs:
    case BatchSystem::kLsf:
      return UseListedJob(paths, options, environment);
    case BatchSystem::kGridEngine:  // mpirun finds its nodes itself.
    case BatchSystem::kNone:
      break;
  }
  return Status::Ok();
}

Status CheckBatchSetting(const Environment& environment) {
  const std::string_view batch = BatchSetting(environment);
  if (batch != "auto" && batch != "job" && batch != "off")
    return Status::Invalid("{} must be auto, job or off, not '{}'", settings::kBatch.name, batch);
  return Status::Ok();
}

Status WithoutNodes(std::string_view job, const Status& why, bool one_node) {
  if (why.code() != StatusCode::kNotFound)
    return Status::Unavailable("{}: {}; name hosts with --hosts, or set {}=off", job, why.message(),
                               settings::kBatch.name);
  LogLine(one_node ? LogLevel::kInfo : LogLevel::kWarn, "{}",
          Format("{}: {}; this node alone is used: name others with --hosts, or set {}=off", job,
                 why.message(), settings::kBatch.name));
  return Status::Ok();
}

HostRequest OwnNode(std::uint32_t devices) { return {std::string(kThisHost), devices}; }

void ReachBy(const std::vector<std::string>& shell, ClusterOptions& options,
             Environment& environment) {
  options.remote_shell = QuoteForShell(shell);
  // Otherwise Open MPI's daemons would start further daemons, without this environment.
  if (!environment.Get("OMPI_MCA_plm_rsh_no_tree_spawn"))
    environment.Set("OMPI_MCA_plm_rsh_no_tree_spawn", "1");
}

bool AllAmong(const std::vector<std::uint32_t>& some, const std::vector<std::uint32_t>& all) {
  return !some.empty() && std::all_of(some.begin(), some.end(), [&all](std::uint32_t number) {
    return std::find(all.begin(), all.end(), number) != all.end();
  });
}

std::string NumbersText(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace cuspan
