// Tables of functions without names, by which NVIDIA's libraries talk to its driver.
#pragma once

#include <cuda.h>

#include "interpose/calls/error.h"

namespace cuspan {

// Libraries ask for such tables by number. The few functions that some of them can not do without
// are here; each says a plain fact about contexts and streams, found by calling it with buffers and
// looking at what it stores. The others of the same tables answer CUDA_ERROR_NOT_SUPPORTED, and so
// does this for other tables. What is missing is named once in the log (level info), with the
// library that holds `caller`. Any thread.
Error GetPrivateTable(const void** table, const CUuuid* id, const void* caller);

}  // namespace cuspan
