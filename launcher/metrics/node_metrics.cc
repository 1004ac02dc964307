#include "launcher/metrics/node_metrics.h"

#include <memory>
#include <string>

#include "common/log.h"
#include "launcher/metrics/exposition.h"
#include "launcher/metrics/metrics_outlet.h"
#include "launcher/metrics/node_families.h"
#include "launcher/starter/agent_cluster.h"
#include "launcher/starter/looking.h"

namespace cuspan {
namespace {

std::string NodeText(const RunReady& found) {
  return Expose(NodeFamilies(found), MetricsFormat::kText);
}

// Returns only on an error.
Status ServeForEver(const NodeMetricsOptions& options, const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<MetricsOutlet> outlet,
                          MetricsOutlet::Open(*options.target));
  CUSPAN_ASSIGN_OR_RETURN(const std::unique_ptr<AgentCluster> agents,
                          StartLooking(options.cluster, signals));
  // The file of a Unix socket must not remain.
  agents->SetFarewell([&outlet] { outlet.reset(); });
  CUSPAN_ASSIGN_OR_RETURN(RunReady found, agents->WaitReady());
  for (const std::string& note : found.notes) LogWarn("{}", note);
  LogInfo("metrics: {}", TargetText(*options.target));
  outlet->Publish(NodeFamilies(found));
  outlet->SetLive(true);
  for (;;) {
    CUSPAN_ASSIGN_OR_RETURN(found, agents->QueryWhenReadable(outlet->fd()));
    outlet->ConsumeRequest();
    outlet->Publish(NodeFamilies(found));
  }
}

}  // namespace

int ServeNodeMetrics(const NodeMetricsOptions& options, const InheritedSignals& signals) {
  if (!options.target) return PrintFound(options.cluster, signals, NodeText);
  LogError("{}", ServeForEver(options, signals).message());
  return kExitOwnFailure;
}

}  // namespace cuspan
