// Queries all hosts of a run concurrently, by a probe started on each like an agent.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/doctor/checks.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan::doctor {

// Facts of each host of the plan, the own one first, and their connections to each other. Takes up
// to `limit` for the facts of the slowest host, and some seconds more for unreachable hosts.
// kExhausted if no process can be created. Ends all probes.
Result<std::vector<Visit>> VisitAll(const InstallPaths& paths, const ClusterOptions& options,
                                    const Plan& plan, const Environment& environment,
                                    std::chrono::seconds limit);

// Path of the command on other hosts.
std::string CommandThere(const InstallPaths& paths, const ClusterOptions& options);

}  // namespace cuspan::doctor
