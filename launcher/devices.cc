#include "launcher/devices.h"

#include <cstdio>

#include "common/log.h"
#include "launcher/tables.h"

namespace cuspan {

Result<RunReady> LookAtDevices(const DevicesOptions& options, const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(InstallPaths paths, InstallPaths::Find());
  CUSPAN_ASSIGN_OR_RETURN(RunKey key, RunKey::Random());
  ClusterOptions cluster = options.cluster;
  cluster.wish.look = true;
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<AgentCluster> agents,
                          AgentCluster::Start(cluster, paths, key, signals));
  CUSPAN_ASSIGN_OR_RETURN(RunReady ready, agents->WaitReady());
  // Nothing has used a device, so there is nothing to learn from the statistics.
  if (Result<RunStatistics> ended = agents->End(); !ended.ok())
    LogInfo("{}", ended.status().message());
  return ready;
}

int Devices(const DevicesOptions& options, const InheritedSignals& signals) {
  const Result<RunReady> ready = LookAtDevices(options, signals);
  if (!ready.ok()) {
    LogError("{}", ready.status().message());
    return kExitOwnFailure;
  }
  for (const std::string& note : ready->notes) LogWarn("{}", note);
  const std::string text = options.json ? DeviceJson(*ready) : DeviceTable(*ready);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace cuspan
