// Remote shell of agents, called like ssh: runs a command on a node of the surrounding Slurm job.
//
//   cuspan-slurm-shell [OPTION…] NODES NODE COMMAND…
//
// OPTIONs are srun's. NODES has the format of SlurmNodesText. This process becomes an srun. Exit
// status 255, as from ssh, if none starts.
#include <algorithm>

#include "common/log.h"
#include "launcher/batch/shell_exec.h"
#include "launcher/batch/slurm_run.h"

namespace cuspan {
namespace {

int Run(int argc, char** argv) {
  SetLogName("cuspan", "launcher");
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto first = std::find_if(words.begin(), words.end(),
                                  [](const std::string& word) { return !word.starts_with("--"); });
  std::vector<std::string> options(words.begin(), first);
  words.erase(words.begin(), first);
  if (words.size() < 3) {
    LogError("usage: cuspan-slurm-shell [OPTION...] NODES NODE COMMAND...");
    return kNotReached;
  }
  const Result<std::vector<SlurmNode>> nodes = ParseSlurmNodes(words[0]);
  if (!nodes.ok()) {
    LogError("{}", nodes.status().message());
    return kNotReached;
  }
  const auto node = std::find_if(nodes->begin(), nodes->end(),
                                 [&](const SlurmNode& known) { return known.name == words[1]; });
  if (node == nodes->end()) {
    LogError("host {} cannot be reached: it is not a node of this Slurm job", words[1]);
    return kNotReached;
  }
  std::string command;
  for (std::size_t i = 2; i < words.size(); ++i) command += (i == 2 ? "" : " ") + words[i];

  const Environment own = Environment::OfThisProcess();
  const Environment environment = LauncherEnvironment(own, [](std::string_view name) {
    return IsSrunOption(name) || name == "CUDA_VISIBLE_DEVICES";
  });
  if (own.Get("SLURM_HET_SIZE")) options.push_back(Format("--het-group={}", node->component));
  return BecomeLauncher(SrunCommand(*nodes, *node, options, command), environment, node->name);
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) { return cuspan::Run(argc, argv); }
