// Runs without a program: they only list the hosts' GPUs.
#pragma once

#include <memory>
#include <string>

#include "launcher/host/app_process.h"
#include "launcher/run/cluster_options.h"
#include "launcher/starter/agent_cluster.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// Agents that say what the hosts have, which runs hold it and which wait, and take nothing.
Result<std::unique_ptr<AgentCluster>> StartLooking(const ClusterOptions& options,
                                                   const InheritedSignals& signals);

// Looks once, and prints on standard output what `text` makes of it; the exit status.
int PrintFound(const ClusterOptions& options, const InheritedSignals& signals,
               std::string (*text)(const RunReady& found));

}  // namespace cuspan
