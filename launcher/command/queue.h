// `cuspan queue`: the runs that hold GPUs or wait for some.
#pragma once

#include "launcher/command/options.h"

namespace cuspan {

// Prints the runs on standard output, in the order of arrival; the exit status.
int ShowQueue(const DevicesOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
