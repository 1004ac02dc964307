// Facts of a host for the doctor: `cuspan doctor --probe`, started there like an agent of a run.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/facts.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan::doctor {

// Collects the facts by queries and tests; leaves no files. Queries the drivers through
// cuspan-proxy, like an agent, and takes as long as drivers need to start.
HostFacts FindFacts(const InstallPaths& paths, const ClusterOptions& options);

// Variables CUSPAN_… without a meaning, each with the probably intended name, if any.
std::vector<std::string> UnknownSettings(const Environment& environment);

// Reads requests from standard input, one per line, and prints the answers until its input ends.
// The facts come first, after an initial request with passwords, if any. Returns the exit status.
int RunProbe(const ClusterOptions& options);

}  // namespace cuspan::doctor
