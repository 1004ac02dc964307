// cuspan bench: starts a benchmark, a program beside the proxy.
#pragma once

#include "launcher/command/options.h"
#include "launcher/host/app_process.h"

namespace cuspan {

// Becomes the benchmark; without a name, lists those that are installed. Returns an exit
// status when it can not.
int Bench(const BenchOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
