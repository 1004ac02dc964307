// Macros of the driver's entry points.
#pragma once

#include <cuda.h>

// Precedes each exported function; everything else in the library is hidden.
#define CUSPAN_SOFT_API extern "C" __attribute__((visibility("default")))

// Returns from the enclosing function if `expression` (a CUresult) is an error.
#define CUSPAN_SOFT_RETURN_IF_ERROR(expression)                                         \
  do {                                                                                  \
    if (const CUresult result_ = (expression); result_ != CUDA_SUCCESS) return result_; \
  } while (false)
