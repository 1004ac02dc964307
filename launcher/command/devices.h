// `cuspan devices`: what a run would find, and who has it.
#pragma once

#include "launcher/command/options.h"

namespace cuspan {

// Prints the devices on standard output; the exit status.
int Devices(const DevicesOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
