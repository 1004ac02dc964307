// The errors of the CUDA runtime by number. Constant data: any thread, any time.
#pragma once

#include "interpose/runtime/api.h"

namespace cuspan {

struct ErrorEntry {
  cudaError_t error;
  const char* name;  // As in driver_types.h.
  const char* text;  // For a person.
};

// Null when no error has that number.
const ErrorEntry* FindError(int error);

}  // namespace cuspan
