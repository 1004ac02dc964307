#include "launcher/batch/slurm_ranks.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "launcher/run/plan.h"

namespace cuspan {
namespace {

using RankWords = std::vector<std::string>;

// The user's --export list, and the remaining options.
struct Exported {
  std::string list;
  RankWords others;
};
Exported ExtractExport(const RankWords& options) {
  Exported found{"ALL", {}};
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string_view word = options[i];
    constexpr std::string_view kExport = "--export";
    if (word.starts_with("--export="))
      found.list = word.substr(kExport.size() + 1);
    else if (word == kExport && i + 1 < options.size())
      found.list = options[++i];
    else
      found.others.push_back(options[i]);
  }
  return found;
}

// "ALL" and "ALL,X=1" include `names`; other lists must name them.
std::string ExportOption(std::string list, const RankWords& names) {
  if (list == "ALL" || list.starts_with("ALL,")) return "--export=" + list;
  if (list == "NONE" || list == "NIL") list.clear();
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return "--export=" + list;
}

// Node of each rank, in rank order. Hosts without a number share the remaining ranks evenly.
Result<std::vector<const SlurmNode*>> PlaceRanks(const MpiProgram& app,
                                                 const std::vector<SlurmNode>& nodes,
                                                 std::string_view own_name) {
  std::uint32_t named = 0;
  std::uint32_t open = 0;
  for (const HostRequest& host : app.hosts)
    if (host.devices == kAllDevices)
      ++open;
    else
      named = AddDevices(named, host.devices);
  std::uint32_t rest = app.ranks - std::min(named, app.ranks);
  if (rest > 0 && open == 0)
    return Status::Invalid("--app-hosts has room for {} ranks, not for {}", named, app.ranks);
  std::vector<const SlurmNode*> places;
  std::optional<std::uint32_t> component;
  for (const HostRequest& host : app.hosts) {
    std::uint32_t count = host.devices;
    if (host.devices == kAllDevices) {
      count = (rest + open - 1) / open;
      --open;
      rest -= count;
    }
    count = std::min(count, app.ranks - static_cast<std::uint32_t>(places.size()));
    const SlurmNode* const node = FindNode(nodes, host.host, own_name);
    if (node == nullptr)
      return Status::Invalid(
          "--app-hosts: {} is not a node of this Slurm job, and srun starts ranks only on its "
          "nodes",
          host.host);
    if (component.value_or(node->component) != node->component)
      return Status::Invalid(
          "--app-hosts: {} is in another component of this heterogeneous job: name hosts of one "
          "component",
          host.host);
    component = node->component;
    places.insert(places.end(), count, node);
  }
  return places;
}

}  // namespace

Result<std::vector<std::string>> SlurmRanksCommand(const MpiProgram& app,
                                                   const std::vector<SlurmNode>& nodes,
                                                   std::string_view own_name,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<std::string>& program) {
  const Exported exported = ExtractExport({app.mpirun.begin() + 1, app.mpirun.end()});
  const bool says_memory =
      std::any_of(exported.others.begin(), exported.others.end(),
                  [](const std::string& word) { return word.starts_with("--mem"); });
  RankWords command = {app.mpirun.front(), "--overlap", "--gres=none",
                       // Same as mpirun: otherwise the other ranks of an MPI program wait forever.
                       "--kill-on-bad-exit=1"};
  if (!says_memory) command.emplace_back("--mem=0");
  // The user's options override those above.
  command.insert(command.end(), exported.others.begin(), exported.others.end());
  command.push_back(ExportOption(exported.list, names));
  command.push_back(Format("--ntasks={}", app.ranks));
  if (!app.hosts.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::vector<const SlurmNode*> places,
                            PlaceRanks(app, nodes, own_name));
    const bool several = std::any_of(nodes.begin(), nodes.end(),
                                     [](const SlurmNode& node) { return node.component != 0; });
    if (several) command.push_back(Format("--het-group={}", places.front()->component));
    std::string list;
    for (const SlurmNode* const node : places) list += (list.empty() ? "" : ",") + node->name;
    command.insert(command.end(), {"--distribution=arbitrary", "--nodelist=" + list});
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

void StripForRanks(Environment& environment) {
  // Number and placement of tasks, GPUs (held by the agents), memory.
  constexpr std::string_view kOfTheJob[] = {"SLURM_NTASKS",
                                            "SLURM_NPROCS",
                                            "SLURM_NNODES",
                                            "SLURM_JOB_NUM_NODES",
                                            "SLURM_DISTRIBUTION",
                                            "SLURM_HOSTFILE",
                                            "SLURM_GPU",
                                            "SLURM_GRES",
                                            "SLURM_TRES",
                                            "SLURM_MEM_",
                                            "SLURM_EXACT",
                                            "SLURM_EXCLUSIVE",
                                            "SLURM_STEP_GRES",
                                            "SLURM_CPUS_PER_GPU",
                                            "SLURM_WHOLE",
                                            "SLURM_EXPORT_ENV",
                                            "_SLURM_SPANK_OPTION_cuspan"};
  constexpr std::string_view kOfTheStep[] = {"SLURM_MPI_TYPE", "SLURM_CPU_BIND", "SLURM_PMIX",
                                             "SLURM_STEP_", "SLURM_OVERCOMMIT"};
  const bool in_step = environment.Get("SLURM_STEP_ID").has_value();
  const auto among = [](std::string_view entry, const auto& prefixes) {
    return std::any_of(std::begin(prefixes), std::end(prefixes),
                       [&](std::string_view prefix) { return entry.starts_with(prefix); });
  };
  RankWords gone;
  for (const std::string& entry : environment.entries())
    if (among(entry, kOfTheJob) || (in_step && among(entry, kOfTheStep)))
      gone.push_back(entry.substr(0, entry.find('=')));
  for (const std::string& name : gone) environment.Unset(name);
  if (InsideMpiJob(environment)) StripMpi(environment);
}

}  // namespace cuspan
