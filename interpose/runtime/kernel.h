// A program's kernels and variables by what it names them with.
#pragma once

#include "interpose/calls/kernel.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

// The kernel that FindFunction finds, loaded on the device of `connection`.
Error FindKernel(ContextConnection& connection, const void* function, LoadedKernel** kernel);

// `symbol` is the host's shadow of a __device__ or __constant__ variable.
// cudaErrorInvalidSymbol when there is none, cudaErrorNotSupported as above.
Error FindVariable(ContextConnection& connection, const void* symbol, LoadedVariable* variable);

}  // namespace cuspan
