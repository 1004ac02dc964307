#include "launcher/batch/slurm_run.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "common/batch_system.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/batch/batch_job.h"
#include "launcher/run/host_names.h"
#include "launcher/run/plan.h"

namespace cuspan {
namespace {

// Lowest number of special steps with all resources of the job: the batch script's and salloc's own
// ("interactive"). Source: slurm.h, SLURM_BATCH_SCRIPT and similar.
constexpr std::uint32_t kFirstSpecialStep = 0xfffffff0;

// GPUs of this process's step, as requested by the user; empty outside of steps.
std::vector<std::uint32_t> GpusOfStep(const Environment& environment) {
  const std::string_view step = environment.Get("SLURM_STEP_ID").value_or("");
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  if (step.empty() || error != std::errc{} || end != step.data() + step.size() ||
      number >= kFirstSpecialStep)
    return {};
  Result<std::vector<std::uint32_t>> indices =
      ParseIndices(environment.Get("SLURM_STEP_GPUS").value_or(""));
  return indices.ok() ? std::move(*indices) : std::vector<std::uint32_t>();
}

// Limits the head agent to GPUs of the job. A value already set may be the user's or an outer
// job's. It is kept if it names GPUs of this job, or if Slurm keeps this process from others.
void SetVisible(const SlurmJob& job, const SlurmNode& own, Environment& environment) {
  if (own.indices.empty()) return;
  const std::optional<std::string_view> set = environment.Get("CUDA_VISIBLE_DEVICES");
  if (set && job.constrains && environment.Get("SLURMD_NODENAME")) return;
  const bool whole_job = environment.Get(settings::kBatch.name) == "job";
  const Result<std::vector<std::uint32_t>> chosen = ParseIndices(set.value_or(""));
  if (!whole_job && chosen.ok() && AllAmong(*chosen, own.indices)) return;
  // Slurm numbers GPUs by their device files.
  environment.Set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  environment.Set("CUDA_VISIBLE_DEVICES", NumbersText(own.indices));
}

// Reduces the user's hosts to the job's GPUs there, as listed in `nodes`, and replaces their names
// by Slurm's.
Status LimitToJob(const SlurmJob& job, const std::vector<SlurmNode>& nodes,
                  std::string_view own_name, ClusterOptions& options) {
  std::vector<HostRequest> hosts;
  std::map<std::string_view, std::uint32_t> taken;
  for (const HostRequest& named : options.hosts) {
    const SlurmNode* const node = FindNode(nodes, named.host, own_name);
    if (node == nullptr)
      return Status::Invalid(
          "host {} is not a node of Slurm job {}: name nodes of the job, or set {}=off to reach "
          "any host by ssh",
          named.host, job.id, settings::kBatch.name);
    const bool own = node == FindNode(nodes, own_name, own_name);
    if (!own && LeadApart(named.host, node->name))
      return Status::Invalid(
          "host {} is not a node of Slurm job {}, and node {} of the job has another address: name "
          "nodes of the job, or set {}=off to reach any host by ssh",
          named.host, job.id, node->name, settings::kBatch.name);
    // If Slurm does not know software GPUs, they are not allocated to any job.
    const bool limited = job.counts_gpus && (node->gpus > 0 || options.device != "soft");
    if (limited && node->gpus == 0)
      return Status::Unavailable(
          "Slurm job {} has no GPUs on host {}: request some (--gres=gpu:N), or name other nodes",
          job.id, named.host);
    HostRequest host{own ? std::string(kThisHost) : node->name, named.devices};
    if (limited) {
      std::uint32_t& others = taken[node->name];
      host.devices = std::min(host.devices, node->gpus - others);
      if (host.devices == 0) continue;
      others += host.devices;
    }
    hosts.push_back(std::move(host));
  }
  options.hosts = std::move(hosts);
  return Status::Ok();
}

}  // namespace

bool InsideSlurmJob(const Environment& environment) {
  return BatchSystemAround(environment) == BatchSystem::kSlurm;
}

Status UseSlurmJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment) {
  CUSPAN_RETURN_IF_ERROR(CheckBatchSetting(environment));
  Result<SlurmJob> job = AskSlurm(environment);
  if (job.ok()) return UseSlurmJob(*job, OwnNodeName(environment), paths, options, environment);
  if (!job.ok() && job.status().code() != StatusCode::kNotFound)
    return Status::Unavailable(
        "Slurm job {}: {}; try again, or set {}=off and name hosts with --hosts, to reach them by "
        "ssh",
        environment.Get("SLURM_JOB_ID").value_or(""), job.status().message(),
        settings::kBatch.name);
  if (!options.hosts.empty()) {
    LogInfo("Slurm job {}: {}; the hosts are reached without the job",
            environment.Get("SLURM_JOB_ID").value_or(""), job.status().message());
    return Status::Ok();
  }
  // A job of one node loses nothing.
  const bool one_node =
      environment.Get("SLURM_JOB_NUM_NODES") == "1" && !environment.Get("SLURM_HET_SIZE");
  return WithoutNodes(Format("Slurm job {}", environment.Get("SLURM_JOB_ID").value_or("")),
                      job.status(), one_node);
}

Status UseSlurmJob(const SlurmJob& job, std::string_view own_name, const InstallPaths& paths,
                   ClusterOptions& options, Environment& environment) {
  const SlurmNode* const own = FindNode(job.nodes, own_name, own_name);
  std::vector<SlurmNode> nodes = job.nodes;
  // The surrounding step may belong to another job; it is ignored then.
  const std::vector<std::uint32_t> step = GpusOfStep(environment);
  const bool in_step = own != nullptr && AllAmong(step, own->indices) &&
                       environment.Get(settings::kBatch.name) != "job";
  SlurmNode* const here = own == nullptr ? nullptr : &nodes[own - job.nodes.data()];
  if (in_step) {
    LogInfo("Slurm job {}: the {} GPUs of this step on this node", job.id, step.size());
    here->gpus = static_cast<std::uint32_t>(step.size());
    here->indices = step;
  }
  if (!options.hosts.empty()) {
    CUSPAN_RETURN_IF_ERROR(LimitToJob(job, nodes, own_name, options));
  } else {
    for (const SlurmNode& node : nodes) {
      if ((job.counts_gpus && node.gpus == 0) || (in_step && &node != here)) continue;
      options.hosts.push_back({&node == here ? std::string(kThisHost) : node.name,
                               job.counts_gpus ? node.gpus : kAllDevices});
    }
  }
  if (options.hosts.empty() && options.device != "soft")
    return Status::Unavailable(
        "Slurm job {} has no GPUs: request some (--gres=gpu:N), use --device soft, or set {}=off "
        "to use the GPUs of this node",
        job.id, settings::kBatch.name);
  LogInfo("Slurm job {}: GPUs of {} hosts; it has {} nodes", job.id, options.hosts.size(),
          job.nodes.size());
  // If only the number of GPUs is limited, they may belong to other jobs.
  const bool knows_gpus =
      job.counts_gpus && std::all_of(nodes.begin(), nodes.end(), [](const SlurmNode& node) {
        return node.gpus == 0 || !node.indices.empty();
      });
  // A remote shell of the user may reach more GPUs than the job has.
  if (knows_gpus && options.remote_shell.empty()) options.request.job = job.id;
  if (here != nullptr) SetVisible(job, *here, environment);
  for (HostRequest& host : options.program_hosts)
    if (const SlurmNode* const node = FindNode(nodes, host.host, own_name)) host.host = node->name;
  if (options.program_in_job)
    for (const SlurmNode& node : nodes)
      if (node.component == 0) options.program_hosts.push_back({node.name, kAllDevices});
  std::erase_if(options.program_hosts, [own_name, here](const HostRequest& host) {
    return IsThisHost(host.host, own_name) || (here != nullptr && host.host == here->name);
  });
  if (!options.remote_shell.empty()) return Status::Ok();
  std::vector<std::string> shell = {paths.slurm_shell};
  if (job.binds) shell.emplace_back("--cpu-bind=none");
  shell.push_back(SlurmNodesText(job.nodes));
  ReachBy(shell, options, environment);
  return Status::Ok();
}

std::string SlurmNodesText(const std::vector<SlurmNode>& nodes) {
  std::string text;
  for (const SlurmNode& node : nodes) {
    text += Format("{}{}={}", text.empty() ? "" : ",", node.name, node.gpus);
    for (const std::uint32_t index : node.indices) text += Format(".{}", index);
    text += Format("@{}", node.component);
  }
  return text;
}

Result<std::vector<SlurmNode>> ParseSlurmNodes(std::string_view text) {
  // Removes the number at the start of `rest`.
  const auto take = [](std::string_view& rest, std::uint32_t& value) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return error == std::errc{};
  };
  std::vector<SlurmNode> nodes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    SlurmNode node;
    node.name = item.substr(0, equals);
    std::string_view rest = item.substr(std::min(equals + 1, item.size()));
    bool right = !node.name.empty() && take(rest, node.gpus);
    while (right && rest.starts_with('.')) {
      rest.remove_prefix(1);
      right = take(rest, node.indices.emplace_back());
    }
    right = right && rest.starts_with('@');
    if (right) rest.remove_prefix(1);
    if (!right || !take(rest, node.component) || !rest.empty())
      return Status::Invalid("'{}' is not NODE=GPUS[.INDEX…]@COMPONENT", item);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

StepGpus GpusForStep(const std::vector<SlurmNode>& nodes, const SlurmNode& node) {
  if (node.gpus == 0) return {{"--gres=none"}, ""};
  std::uint32_t least = node.gpus;
  std::optional<std::uint32_t> first;
  for (const SlurmNode& other : nodes) {
    if (other.component != node.component) continue;
    least = std::min(least, other.gpus);
    if (!first) first = other.gpus;
  }
  if (node.gpus <= least) return {{Format("--gres=gpu:{}", node.gpus)}, ""};
  if (node.gpus <= first.value_or(0)) return {{Format("--gpus={}", node.gpus)}, ""};
  if (node.indices.empty()) return {{"--gres=none"}, ""};
  return {
      {"--gres=none"},
      Format("CUDA_DEVICE_ORDER=PCI_BUS_ID && CUDA_VISIBLE_DEVICES={} && export CUDA_DEVICE_ORDER "
             "CUDA_VISIBLE_DEVICES && ",
             NumbersText(node.indices))};
}

std::vector<std::string> SrunCommand(const std::vector<SlurmNode>& nodes, const SlurmNode& node,
                                     const std::vector<std::string>& options,
                                     const std::string& command) {
  const StepGpus gpus = GpusForStep(nodes, node);
  std::vector<std::string> words = {"srun", "--nodes=1", "--ntasks=1", "--nodelist=" + node.name};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), gpus.options.begin(), gpus.options.end());
  // The step takes no processors, memory or GPUs from the user's own steps.
  words.insert(words.end(), {"--overlap", "--mem=0", "--mpi=none", "--job-name=cuspan", "--quiet",
                             "--unbuffered", "--export=ALL"});
  words.insert(words.end(), {"/bin/sh", "-c", gpus.prefix + command});
  return words;
}

bool IsSrunOption(std::string_view variable) {
  constexpr std::string_view kOfTheJob[] = {
      "SLURM_CONF",      "SLURM_JOB_ID",       "SLURM_JOBID",   "SLURM_HET_SIZE",
      "SLURM_PACK_SIZE", "SLURM_JOB_NODELIST", "SLURM_NODELIST"};
  if (variable.starts_with("SRUN_") || variable.starts_with("_SLURM_SPANK_OPTION_cuspan"))
    return true;
  if (!variable.starts_with("SLURM_")) return false;
  return std::none_of(std::begin(kOfTheJob), std::end(kOfTheJob),
                      [variable](std::string_view own) { return variable.starts_with(own); });
}

}  // namespace cuspan
