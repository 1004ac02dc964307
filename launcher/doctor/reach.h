// Asks all hosts of a run at once, each by a probe that is started as an agent would be.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/doctor/checks.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan::doctor {

// What each host of the plan says, the own one first, and how they reach each other. Takes `limit`
// for the facts of the slowest host, and some seconds more for those that cannot reach others.
// kExhausted where no processes can be had. Nothing is left of the probes.
Result<std::vector<Visit>> VisitAll(const InstallPaths& paths, const ClusterOptions& options,
                                    const Plan& plan, const Environment& environment,
                                    std::chrono::seconds limit);

// The path of the command on other hosts.
std::string CommandThere(const InstallPaths& paths, const ClusterOptions& options);

}  // namespace cuspan::doctor
