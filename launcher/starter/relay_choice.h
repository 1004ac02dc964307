// Choice of the relay for --relay auto.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan {

struct RelayChoice {
  RelayKind kind;
  std::string reason;  // Text for the log.
};

// UCX if installed: its idle agents sleep, answer sooner, and end one by one. MPI if the user has
// arguments for mpirun, or in a batch job: it may forbid remote shells, and mpirun uses the batch
// system. `has_ucx` is called last, at most once.
RelayChoice ChooseRelay(const ClusterOptions& options, const Environment& environment,
                        const std::function<bool()>& has_ucx);

// True if this installation's agent starts with UCX's libraries. Starts it for this test.
bool HasUcx(const InstallPaths& paths);

}  // namespace cuspan
