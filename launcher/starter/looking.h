// Runs that only look at what the hosts have.
#pragma once

#include <memory>

#include "launcher/host/app_process.h"
#include "launcher/run/cluster_options.h"
#include "launcher/starter/agent_cluster.h"

namespace cuspan {

// Agents that say what the hosts have, which runs hold it and which wait, and take nothing.
Result<std::unique_ptr<AgentCluster>> StartLooking(const ClusterOptions& options,
                                                   const InheritedSignals& signals);

}  // namespace cuspan
