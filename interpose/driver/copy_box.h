// Copies of boxes as the driver's functions describe them.
#pragma once

#include "interpose/calls/copy_box.h"
#include "interpose/driver/entry.h"

namespace cuspan {

// CUDA_ERROR_INVALID_VALUE for a side of no known kind.
Error BoxOf(const CUDA_MEMCPY3D& copy, BoxRequest* box);
// The other way round.
CUDA_MEMCPY3D ParametersOf(const BoxRequest& box);

}  // namespace cuspan
