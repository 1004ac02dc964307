// Tables of unnamed functions, used by NVIDIA's libraries to call its driver.
#pragma once

#include <cuda.h>

#include "interpose/calls/base/error.h"

namespace cuspan {

// Libraries request these tables by UUID. Only the few functions necessary for some libraries are
// implemented. Each returns a plain fact about contexts, streams or modules, found by calling it
// with buffers and examining the values stored. Other functions and tables are
// CUDA_ERROR_NOT_SUPPORTED. Each is named once in the log (level info), with the library of
// `caller`. Threads: any.
Error GetPrivateTable(const void** table, const CUuuid* id, const void* caller);

}  // namespace cuspan
