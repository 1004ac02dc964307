// `cuspan top`: activity of the runs sharing GPUs.
#pragma once

#include "launcher/command/options.h"

namespace cuspan {

// Prints the table on standard output; on a terminal repeatedly, until a signal of the user.
// Returns the exit status.
int Top(const TopOptions& options, const InheritedSignals& signals);

}  // namespace cuspan
