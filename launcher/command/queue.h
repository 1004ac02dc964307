// `cuspan queue`: the runs holding GPUs or waiting for them.
#pragma once

#include "launcher/command/options.h"

namespace cuspan {

// Prints the runs on standard output, in order of arrival. Returns the exit status.
int ShowQueue(const DevicesOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
