// Launches as the driver's functions describe them.
#pragma once

#include "interpose/calls/launch.h"
#include "interpose/driver/entry.h"

namespace cuspan {

// CUDA_ERROR_INVALID_HANDLE for what is no function.
Error TakeFunction(CUfunction function, LaunchCall* call);
// All but the arguments.
Error ReadConfig(const CUlaunchConfig* config, CUfunction function, LaunchCall* call);

}  // namespace cuspan
