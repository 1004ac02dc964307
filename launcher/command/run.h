// `cuspan run`: the app beside its agents.
#pragma once

#include "launcher/command/options.h"
#include "launcher/host/app_process.h"

namespace cuspan {

// Runs the program and ends as it ends; returns only an exit status of our own failures.
int Run(const RunOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
