// `cuspan devices`: what a run would find, and who has it.
#pragma once

#include <string>

#include "launcher/command/options.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// Looks once, and prints on standard output what `text` makes of it; the exit status.
int PrintFound(const ClusterOptions& options, const InheritedSignals& signals,
               std::string (*text)(const RunReady& found));

// Prints the devices on standard output; the exit status.
int Devices(const DevicesOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
