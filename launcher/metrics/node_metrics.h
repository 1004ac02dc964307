// `cuspan metrics`: metrics of hosts.
#pragma once

#include <optional>

#include "launcher/host/app_process.h"
#include "launcher/metrics/metrics_target.h"
#include "launcher/run/cluster_options.h"

namespace cuspan {

struct NodeMetricsOptions {
  ClusterOptions cluster;
  std::optional<MetricsTarget> target;  // Empty: standard output, once.
};

// Serves until a signal, or prints once. Returns the exit status.
int ServeNodeMetrics(const NodeMetricsOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
