// What the driver's entry points share.
#pragma once

#include <cuda.h>

// Before each exported function; everything else in the library is hidden.
#define CUSPAN_SOFT_API extern "C" __attribute__((visibility("default")))

// Leaves the enclosing function when `expression` (a CUresult) is an error.
#define CUSPAN_SOFT_RETURN_IF_ERROR(expression)                                         \
  do {                                                                                  \
    if (const CUresult result_ = (expression); result_ != CUDA_SUCCESS) return result_; \
  } while (false)
