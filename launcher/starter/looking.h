// Runs without a program, for listing the hosts' GPUs.
#pragma once

#include <memory>
#include <string>

#include "launcher/host/app_process.h"
#include "launcher/run/cluster_options.h"
#include "launcher/starter/agent_cluster.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// Agents that report the hosts' GPUs and the runs holding or awaiting them, and take no GPUs.
Result<std::unique_ptr<AgentCluster>> StartLooking(const ClusterOptions& options,
                                                   const InheritedSignals& signals);

// Queries once and prints the result of `text` on standard output. Returns the exit status.
int PrintFound(const ClusterOptions& options, const InheritedSignals& signals,
               std::string (*text)(const RunReady& found));

}  // namespace cuspan
