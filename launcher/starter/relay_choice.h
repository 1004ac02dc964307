// Which relay a run has where the user leaves it to cuspan.
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
  std::string reason;  // For the log.
};

// UCX where it is: its agents sleep, answer sooner, and end one by one. MPI where the user has
// words for its mpirun, or a batch system starts what mpirun asks for, and may forbid remote
// shells. `has_ucx` is asked last, and once at most.
RelayChoice ChooseRelay(const ClusterOptions& options, const Environment& environment,
                        const std::function<bool()>& has_ucx);

// Whether this installation's agent starts with UCX's libraries. Starts it, to see.
bool HasUcx(const InstallPaths& paths);

}  // namespace cuspan
