#include "launcher/batch/listed_run.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/batch_system.h"
#include "common/find_command.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/batch/batch_job.h"
#include "launcher/batch/slurm_job.h"
#include "launcher/host/own_host.h"
#include "launcher/run/host_names.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kOrder = "CUDA_DEVICE_ORDER";
constexpr std::string_view kLimits = "limit them with --hosts HOST:GPUS,… or --gpus N";

// LSF may list GPUs per task only: CUDA_VISIBLE_DEVICES1, …2, and so on. This node has all of them.
void JoinThoseOfTasks(Environment& environment) {
  if (environment.Get(kVisible)) return;
  std::vector<std::string> all;
  for (std::size_t task = 1;; ++task) {
    const auto some = environment.Get(Format("{}{}", kVisible, task));
    if (!some) break;
    for (std::string_view rest = *some; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string one(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
    }
  }
  std::string joined;
  for (const std::string& one : all) joined += (joined.empty() ? "" : ",") + one;
  if (!joined.empty()) environment.Set(kVisible, joined);
}

// Limits the head agent to these GPUs, or to the user's choice among them.
void SetOwnGpus(const std::vector<std::uint32_t>& gpus, Environment& environment) {
  // The list uses this order, and the user's numbers are compared with it.
  environment.Set(kOrder, "PCI_BUS_ID");
  const Result<std::vector<std::uint32_t>> chosen =
      ParseIndices(environment.Get(kVisible).value_or(""));
  if (!chosen.ok() || !AllAmong(*chosen, gpus)) environment.Set(kVisible, NumbersText(gpus));
}

// First existing launcher of the job.
Result<std::string> FindLauncher(const ListedJob& job, const Environment& environment) {
  Status first;
  for (const std::string& launcher : job.launchers) {
    const Result<std::string> found = FindCommand(launcher, environment.Get("PATH").value_or(""));
    if (found.ok()) return launcher;
    if (first.ok()) first = found.status();
  }
  return Status::NotFound(
      "{}: its other nodes cannot be reached: {}; add the folder of this command to PATH, name "
      "another command with --remote-shell, or set {}=off to use this node alone",
      job.name, first.message(), settings::kBatch.name);
}

// PBS starts processes without input.
bool PassesInput(std::string_view launcher) { return launcher == "blaunch"; }

}  // namespace

Status UseListedJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment) {
  CUSPAN_RETURN_IF_ERROR(CheckBatchSetting(environment));
  const BatchSystem system = BatchSystemAround(environment);
  const bool lsf = system == BatchSystem::kLsf;
  const Result<ListedJob> job = lsf ? ReadLsfJob(environment) : ReadPbsJob(environment);
  if (lsf) JoinThoseOfTasks(environment);
  if (job.ok()) return UseListedJob(*job, OwnHostName(), paths, options, environment);
  const std::string name =
      Format("{} job {}", lsf ? "LSF" : "PBS", environment.Get(JobVariable(system)).value_or(""));
  return WithoutNodes(name, job.status(), false);
}

Status UseListedJob(const ListedJob& job, std::string_view own_name, const InstallPaths& paths,
                    ClusterOptions& options, Environment& environment) {
  // PBS sets it to an empty value if the job has no GPUs on this node.
  const std::optional<std::string_view> set = environment.Get(kVisible);
  const bool own_has_none = set && set->empty();
  bool told = true;
  bool others = false;
  const ListedNode* const here = FindHost(job.nodes, own_name);
  const auto is_own = [&](const ListedNode& node) {
    return &node == here || IsThisHost(node.name, own_name);
  };
  for (const ListedNode& node : job.nodes) {
    const bool own = is_own(node);
    if (job.lists_gpus ? node.gpus.empty() : own && own_has_none) continue;
    const std::uint32_t devices =
        job.lists_gpus ? static_cast<std::uint32_t>(node.gpus.size()) : kAllDevices;
    if (!own) {
      options.hosts.push_back({node.name, devices});
      others = true;
      continue;
    }
    options.hosts.push_back(OwnNode(devices));
    if (!job.lists_gpus) told = set.has_value();
  }
  if (options.hosts.empty()) {
    if (options.device == "soft") return Status::Ok();
    return Status::Unavailable(
        "{} has no GPUs: request some ({}), name other hosts with --hosts, use --device soft, or "
        "set {}=off to use the GPUs of this node",
        job.name, job.request, settings::kBatch.name);
  }
  if (job.lists_gpus)
    for (const ListedNode& node : job.nodes)
      if (is_own(node) && !node.gpus.empty()) SetOwnGpus(node.gpus, environment);
  LogInfo("{}: {} of its {} nodes are used", job.name, options.hosts.size(), job.nodes.size());
  if (!told && options.device != "soft")
    LogWarn("{}: its GPUs are not known, so all accessible GPUs of its nodes are used: {}",
            job.name, kLimits);
  if (!others) return Status::Ok();

  // A remote shell of the user may reach more GPUs than the job has.
  std::vector<std::string> launcher = SplitWords(options.remote_shell);
  if (!launcher.empty() && !job.lists_gpus) return Status::Ok();
  if (launcher.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::string found, FindLauncher(job, environment));
    launcher = {found};
    if (!PassesInput(found)) {
      // The head agent sends the run's key to the worker agents through this input.
      if (options.relay == RelayKind::kUcx)
        return Status::Invalid(
            "{}: --relay ucx needs a remote shell forwarding its standard input, but {} does not: "
            "use --relay mpi, or name another one with --remote-shell",
            job.name, found);
      options.relay = RelayKind::kMpi;
    }
  }
  std::vector<std::string> shell = {paths.job_shell};
  if (!job.lists_gpus && told && options.device != "soft" && LogEnabled(LogLevel::kWarn))
    shell.emplace_back("--tell");
  shell.push_back(ListedNodesText(job.nodes));
  shell.insert(shell.end(), launcher.begin(), launcher.end());
  shell.emplace_back("--");
  ReachBy(shell, options, environment);
  // The batch system does not end a daemon of Open MPI outside its session.
  if (!environment.Get("OMPI_MCA_orte_leave_session_attached"))
    environment.Set("OMPI_MCA_orte_leave_session_attached", "1");
  return Status::Ok();
}

std::string ListedNodesText(const std::vector<ListedNode>& nodes) {
  std::string text;
  for (const ListedNode& node : nodes) {
    text += (text.empty() ? "" : ",") + node.name;
    for (std::size_t i = 0; i < node.gpus.size(); ++i)
      text += Format("{}{}", i == 0 ? '=' : '.', node.gpus[i]);
  }
  return text;
}

Result<std::vector<ListedNode>> ParseListedNodes(std::string_view text) {
  std::vector<ListedNode> nodes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    ListedNode node{std::string(item.substr(0, equals)), {}};
    bool right = !node.name.empty();
    for (std::string_view rest = item.substr(equals); right && !rest.empty();) {
      rest.remove_prefix(1);  // '=' or '.'.
      const auto [end, error] =
          std::from_chars(rest.data(), rest.data() + rest.size(), node.gpus.emplace_back());
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      right = error == std::errc{} && (rest.empty() || rest.starts_with('.'));
    }
    if (!right) return Status::Invalid("'{}' is not NODE[=GPU[.GPU…]]", item);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string NodePrefix(const ListedNode& node, const Environment& own, bool tells) {
  std::string prefix;
  const auto set = [&prefix](std::string_view name, std::string_view value) {
    prefix += Format("{}={} && export {} && ", name, QuoteForShell({std::string(value)}), name);
  };
  // On other nodes, processes of the job start with the environment of its submission.
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"})
    if (const auto value = own.Get(name)) set(name, *value);
  if (!node.gpus.empty()) {
    set(kOrder, "PCI_BUS_ID");
    set(kVisible, NumbersText(node.gpus));
  } else if (tells) {
    const std::string line =
        Format("cuspan: host {}: {} is not set there, so all accessible GPUs are used: {}",
               node.name, kVisible, kLimits);
    prefix += Format("{{ test -n \"${{{}+set}}\" || echo {} >&2; }} && ", kVisible,
                     QuoteForShell({line}));
  }
  return prefix;
}

bool BelongsToBatchSystem(std::string_view launcher) {
  return launcher == "pbs_tmrsh" || launcher == "pbsdsh" || launcher == "blaunch";
}

std::vector<std::string> LauncherCommand(const std::vector<std::string>& launcher,
                                         const std::string& node, const std::string& command) {
  const std::vector<std::string> shell = {"/bin/sh", "-c", command};
  std::vector<std::string> words = launcher;
  if (launcher.front() == "pbsdsh") words.emplace_back("-h");
  words.push_back(node);
  // These two execute a program without a shell; the others pass a text to one.
  if (launcher.front() == "pbs_tmrsh" || launcher.front() == "pbsdsh")
    words.insert(words.end(), shell.begin(), shell.end());
  else
    words.push_back(QuoteForShell(shell));
  return words;
}

}  // namespace cuspan
