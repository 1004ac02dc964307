// Look-up of a program's kernels and variables by their host symbols.
#pragma once

#include "interpose/calls/kernel.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

// Finds the kernel by FindFunction, and loads it on the device of `connection`.
Error FindKernel(ContextConnection& connection, const void* function, LoadedKernel** kernel);

// `symbol` is the host's shadow of a __device__ or __constant__ variable. cudaErrorInvalidSymbol if
// it is unknown, CUDA_ERROR_NOT_SUPPORTED as in CheckSupported.
Error FindVariable(ContextConnection& connection, const void* symbol, LoadedVariable* variable);

}  // namespace cuspan
