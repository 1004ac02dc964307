#include "launcher/command/devices.h"

#include <cstdio>
#include <memory>

#include "common/log.h"
#include "launcher/run/tables.h"
#include "launcher/starter/looking.h"

namespace cuspan {
namespace {

Result<RunReady> LookOnce(const ClusterOptions& options, const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<AgentCluster> agents, StartLooking(options, signals));
  CUSPAN_ASSIGN_OR_RETURN(RunReady found, agents->WaitReady());
  // Nothing has used a device, so there is nothing to learn from the statistics.
  if (Result<RunStatistics> ended = agents->End(); !ended.ok())
    LogInfo("{}", ended.status().message());
  return found;
}

}  // namespace

int PrintFound(const ClusterOptions& options, const InheritedSignals& signals,
               std::string (*text)(const RunReady& found)) {
  const Result<RunReady> found = LookOnce(options, signals);
  if (!found.ok()) {
    LogError("{}", found.status().message());
    return kExitOwnFailure;
  }
  for (const std::string& note : found->notes) LogWarn("{}", note);
  std::fputs(text(*found).c_str(), stdout);
  return 0;
}

int Devices(const DevicesOptions& options, const InheritedSignals& signals) {
  return PrintFound(options.cluster, signals, options.json ? DeviceJson : DeviceTable);
}

}  // namespace cuspan
