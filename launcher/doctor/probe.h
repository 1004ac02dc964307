// What a host says of itself when the doctor asks: `cuspan doctor --probe`, started on it as an
// agent of a run would be.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/facts.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan::doctor {

// Looks, and tries out; leaves nothing. Asks the drivers by cuspan-proxy, as an agent does, which
// takes as long as they need to start.
HostFacts FindFacts(const InstallPaths& paths, const ClusterOptions& options);

// Variables CUSPAN_… that mean nothing, each with what was probably meant, if anything was.
std::vector<std::string> UnknownSettings(const Environment& environment);

// Reads requests from standard input, a line each, and prints what it finds; ends with its input.
// The facts come first, after a first request with passwords, if there is any. The exit status.
int RunProbe(const ClusterOptions& options);

}  // namespace cuspan::doctor
