// `cuspan devices`: the devices available to a run, and their holders.
#pragma once

#include "launcher/command/options.h"

namespace cuspan {

// Prints the devices on standard output. Returns the exit status.
int Devices(const DevicesOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
