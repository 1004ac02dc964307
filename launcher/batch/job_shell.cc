// Remote shell of agents, called like ssh: runs a command on a node of the surrounding PBS or LSF
// job.
//
//   cuspan-job-shell [--tell] NODES LAUNCHER… -- NODE COMMAND…
//
// NODES has the format of ListedNodesText. LAUNCHER is pbs_tmrsh, pbsdsh, blaunch, or a remote
// shell with its options. This process becomes the launcher. Exit status 255, as from ssh, if none
// starts.
#include <algorithm>

#include "common/log.h"
#include "launcher/batch/listed_run.h"
#include "launcher/batch/shell_exec.h"

namespace cuspan {
namespace {

int Run(int argc, char** argv) {
  SetLogName("cuspan", "launcher");
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool tells = !words.empty() && words[0] == "--tell";
  if (tells) words.erase(words.begin());
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark - words.begin() < 2 || words.end() - mark < 3) {
    LogError("usage: cuspan-job-shell [--tell] NODES LAUNCHER... -- NODE COMMAND...");
    return kNotReached;
  }
  const Result<std::vector<ListedNode>> nodes = ParseListedNodes(words[0]);
  if (!nodes.ok()) {
    LogError("{}", nodes.status().message());
    return kNotReached;
  }
  const std::vector<std::string> launcher(words.begin() + 1, mark);
  const std::string& host = mark[1];
  const auto node = std::find_if(nodes->begin(), nodes->end(),
                                 [&](const ListedNode& known) { return known.name == host; });
  if (node == nodes->end()) {
    LogError("host {} cannot be reached: it is not a node of this job", host);
    return kNotReached;
  }

  const Environment own = Environment::OfThisProcess();
  // Dropped: it describes this node's GPUs.
  const Environment environment = LauncherEnvironment(
      own, [](std::string_view name) { return name.starts_with("CUDA_VISIBLE_DEVICES"); });
  // Any other remote shell has its own environment there.
  std::string command =
      NodePrefix(*node, BelongsToBatchSystem(launcher.front()) ? own : Environment(), tells);
  for (auto word = mark + 2; word != words.end(); ++word)
    command += (word == mark + 2 ? "" : " ") + *word;
  return BecomeLauncher(LauncherCommand(launcher, node->name, command), environment, node->name);
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) { return cuspan::Run(argc, argv); }
