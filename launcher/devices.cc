#include "launcher/devices.h"

#include <cstdio>

#include "common/log.h"
#include "launcher/tables.h"

namespace cuspan {

Result<RunReady> LookAtDevices(const DevicesOptions& options, const InheritedSignals& signals) {
  Result<InstallPaths> paths = InstallPaths::Find();
  if (!paths.ok()) return paths.status();
  Result<RunKey> key = RunKey::Random();
  if (!key.ok()) return key.status();
  ClusterOptions cluster = options.cluster;
  cluster.wish.look = true;
  Result<std::unique_ptr<AgentCluster>> agents =
      AgentCluster::Start(cluster, *paths, *key, signals);
  if (!agents.ok()) return agents.status();
  Result<RunReady> ready = (*agents)->WaitReady();
  if (!ready.ok()) return ready;
  // Nothing has used a device, so there is nothing to learn from the statistics.
  if (Result<RunStatistics> ended = (*agents)->End(); !ended.ok())
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
