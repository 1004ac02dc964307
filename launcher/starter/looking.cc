#include "launcher/starter/looking.h"

#include <cstdio>

#include "common/log.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/run_key.h"

namespace cuspan {
namespace {

Result<RunReady> PollOnce(const ClusterOptions& options, const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<AgentCluster> agents, StartLooking(options, signals));
  CUSPAN_ASSIGN_OR_RETURN(RunReady found, agents->WaitReady());
  // No device was used, so the statistics are not needed.
  if (Result<RunStatistics> ended = agents->End(); !ended.ok())
    LogInfo("{}", ended.status().message());
  return found;
}

}  // namespace

Result<std::unique_ptr<AgentCluster>> StartLooking(const ClusterOptions& options,
                                                   const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(InstallPaths paths, InstallPaths::Find());
  CUSPAN_ASSIGN_OR_RETURN(RunKey key, RunKey::Random());
  ClusterOptions looking = options;
  looking.request.look = true;
  return AgentCluster::Start(looking, paths, key, signals);
}

int PrintFound(const ClusterOptions& options, const InheritedSignals& signals,
               std::string (*text)(const RunReady& found)) {
  const Result<RunReady> found = PollOnce(options, signals);
  if (!found.ok()) {
    LogError("{}", found.status().message());
    return kExitOwnFailure;
  }
  for (const std::string& note : found->notes) LogWarn("{}", note);
  std::fputs(text(*found).c_str(), stdout);
  return 0;
}

}  // namespace cuspan
