// Box copies as described by the driver's parameter structures.
#pragma once

#include "interpose/calls/copy_box.h"
#include "interpose/driver/entry.h"

namespace cuspan {

// CUDA_ERROR_INVALID_VALUE if a side has an unknown memory type.
Error BoxOf(const CUDA_MEMCPY3D& copy, BoxRequest* box);
// Inverse of BoxOf.
CUDA_MEMCPY3D ParametersOf(const BoxRequest& box);

}  // namespace cuspan
