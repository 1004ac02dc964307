// `cuspan top`: what the runs that share GPUs are doing.
#pragma once

#include "launcher/command/options.h"

namespace cuspan {

// Prints it on standard output; on a terminal again and again, until the user ends it by a signal.
// The exit status.
int Top(const TopOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
