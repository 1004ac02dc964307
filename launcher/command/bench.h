// `cuspan bench`: starts a benchmark, a program installed beside the proxy.
#pragma once

#include "launcher/command/options.h"
#include "launcher/host/app_process.h"

namespace cuspan {

// Replaces this process by the benchmark; without a name, lists the installed ones. Returns an exit
// status if it cannot start one.
int Bench(const BenchOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
