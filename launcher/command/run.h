// `cuspan run`: the program beside its agents.
#pragma once

#include "launcher/command/options.h"
#include "launcher/host/app_process.h"

namespace cuspan {

// Runs the program and ends with its exit status or signal. Returns an exit status only for
// failures of cuspan.
int Run(const RunOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
