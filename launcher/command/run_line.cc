#include "launcher/command/run_line.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/file_roots.h"
#include "common/settings.h"
#include "launcher/command/cluster_line.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

Result<std::uint32_t> CheckGpusPerRank(const OptionValues& values) {
  if (const std::string& text = values.Text(settings::kGpusPerRank);
      values.Given(settings::kGpusPerRank) && !text.empty())
    return ParseUpTo4096(text, settings::kGpusPerRank.option, "a rank has");
  CUSPAN_ASSIGN_OR_RETURN(const std::uint64_t each, SettingNumber(settings::kGpusPerRank, 0, 4096));
  return static_cast<std::uint32_t>(each);
}

// Checks the MPI options. If each rank has GPUs of its own, sets the number of GPUs in `request`.
Result<MpiProgram> CheckMpiOptions(const OptionValues& values, GpuRequest& request) {
  MpiProgram app;
  CUSPAN_ASSIGN_OR_RETURN(app.devices_a_rank, CheckGpusPerRank(values));
  const std::string& hosts = values.Text(settings::kAppHosts);
  if (values.Text(settings::kRanks).empty()) {
    if (!hosts.empty())
      return Status::Invalid("--app-hosts needs -np: say how many ranks to start");
    return app;
  }
  CUSPAN_ASSIGN_OR_RETURN(
      app.ranks, ParseUpTo4096(values.Text(settings::kRanks), "-np", "the number of ranks is"));
  app.mpirun = SplitWords(values.Text(settings::kAppMpirun));
  if (app.mpirun.empty()) return Status::Invalid("--app-mpirun: no command given");
  if (!hosts.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(app.hosts, ParseHosts(hosts, settings::kAppHosts.option));
  }
  const std::uint64_t needed = std::uint64_t{app.ranks} * app.devices_a_rank;
  if (needed == 0) return app;
  if (needed > 4096 || (request.number && *request.number < needed))
    return Status::Invalid("{} ranks with {} GPUs each need {} GPUs, but the run has {}", app.ranks,
                           app.devices_a_rank, needed, request.number ? *request.number : 4096);
  if (!request.number && !request.all) request.number = static_cast<std::uint32_t>(needed);
  return app;
}

}  // namespace

Result<RunOptions> CheckRunOptions(const OptionValues& values, std::vector<std::string> program) {
  RunOptions run;
  CUSPAN_ASSIGN_OR_RETURN(run.cluster, CheckClusterOptions(values));
  CUSPAN_ASSIGN_OR_RETURN(run.cluster.files, values.Choice(settings::kFiles));
  run.cluster.file_roots = values.Text(settings::kFileRoot);
  std::replace(run.cluster.file_roots.begin(), run.cluster.file_roots.end(), '\n', ',');
  CUSPAN_RETURN_IF_ERROR(ParseFileRoots(run.cluster.file_roots).status());
  if (run.cluster.files == "off" && !run.cluster.file_roots.empty())
    return Status::Invalid("--file-root {} needs --files auto: with off, no file is opened by name",
                           run.cluster.file_roots);
  if (const std::string& memory = values.Text(settings::kFileMemory); memory != "auto") {
    const std::optional<std::uint64_t> bytes = ParseSize(memory);
    if (!bytes)
      return Status::Invalid("--file-memory {}: write a size such as 40G, or auto", memory);
    run.cluster.file_memory = std::to_string(*bytes);
  }
  if (program.empty())
    return Status::Invalid("no program to run; use cuspan run [OPTIONS] -- PROGRAM [ARGUMENTS]");
  CUSPAN_ASSIGN_OR_RETURN(run.mpi, CheckMpiOptions(values, run.cluster.request));
  if (!run.mpi.hosts.empty() && !run.cluster.remote_prefix.empty())
    return Status::Invalid(
        "--app-hosts needs cuspan in the same directory on these hosts: omit --remote-prefix");
  if (const std::string& metrics = values.Text(settings::kMetrics); !metrics.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(run.metrics, ParseMetricsTarget(metrics));
    run.metrics_demanded = values.Given(settings::kMetrics);
  }
  run.cluster.program_hosts = run.mpi.hosts;
  // Agents may have another working directory.
  if (const std::string& trace = values.Text(settings::kTrace); !trace.empty())
    run.cluster.trace = std::filesystem::absolute(trace).string();
  run.statistics = values.Flag(settings::kStatsFlag);
  run.strict = values.Flag(settings::kStrict);
  run.dry_run = values.Flag(settings::kDryRun);
  run.command = std::move(program);
  return run;
}

}  // namespace cuspan
