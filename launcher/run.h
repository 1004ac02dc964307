// `cuspan run`: the app beside its agents.
#pragma once

#include "launcher/app_process.h"
#include "launcher/options.h"

namespace cuspan {

// Runs the program and ends as it ends; returns only an exit status of our own failures.
int Run(const RunOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
