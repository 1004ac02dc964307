// Runs a command on a node of the Slurm job around, called as ssh is: the remote shell of agents.
//
//   cuspan-slurm-shell [OPTION…] NODES NODE COMMAND…
//
// OPTIONs are srun's, NODES as SlurmNodesText writes it. Becomes an srun; exit status 255, as of
// ssh, where none starts.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/log.h"
#include "launcher/batch/slurm_run.h"

namespace cuspan {
namespace {

constexpr int kNotReached = 255;

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
    LogError("host {} cannot be reached: it is no node of this Slurm job", words[1]);
    return kNotReached;
  }
  std::string command;
  for (std::size_t i = 2; i < words.size(); ++i) command += (i == 2 ? "" : " ") + words[i];

  Environment environment;
  const Environment own = Environment::OfThisProcess();
  for (const std::string& entry : own.entries()) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    // As through ssh, nothing of the run's goes this way: it has secrets.
    if (!IsSrunOption(name) && !name.starts_with("CUSPAN_") && name != "CUDA_VISIBLE_DEVICES")
      environment.Set(name, entry.substr(name.size() + 1));
  }
  if (own.Get("SLURM_HET_SIZE")) options.push_back(Format("--het-group={}", node->component));
  std::vector<char*> arguments;
  const std::vector<std::string> srun = SrunCommand(*nodes, *node, options, command);
  for (const std::string& word : srun) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> variables = environment.Pointers();
  ::execvpe(arguments[0], arguments.data(), variables.data());
  LogError("host {} cannot be reached: starting srun failed: {}", node->name, std::strerror(errno));
  return kNotReached;
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) { return cuspan::Run(argc, argv); }
