// `cuspan metrics`: the metrics of hosts.
#pragma once

#include <optional>

#include "launcher/host/app_process.h"
#include "launcher/metrics/metrics_target.h"
#include "launcher/run/cluster_options.h"

namespace cuspan {

struct NodeMetricsOptions {
  ClusterOptions cluster;
  std::optional<MetricsTarget> target;  // None: standard output, once.
};

// Serves until a signal ends it, or prints once; the exit status.
int ServeNodeMetrics(const NodeMetricsOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
