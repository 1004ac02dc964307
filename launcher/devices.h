// `cuspan devices`: what a run would find, and who has it.
#pragma once

#include "launcher/options.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// What the hosts have, which runs hold it and which wait. Takes nothing.
Result<RunReady> LookAtDevices(const DevicesOptions& options, const InheritedSignals& signals);

// Prints the devices on standard output; the exit status.
int Devices(const DevicesOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
