// Launches as described by the driver's parameters.
#pragma once

#include "interpose/calls/launch.h"
#include "interpose/driver/entry.h"

namespace cuspan {

// CUDA_ERROR_INVALID_HANDLE if there is no such function.
Error ReadFunction(CUfunction function, LaunchCall* call);
// Reads everything except the arguments.
Error ReadConfig(const CUlaunchConfig* config, CUfunction function, LaunchCall* call);

}  // namespace cuspan
