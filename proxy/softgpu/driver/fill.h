// Fills of memory, as streams and graphs have them.
#pragma once

#include <cuda.h>

#include <memory>

#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {

// CUDA_ERROR_INVALID_VALUE for a fill of memory that `context`'s device may not write, or of places
// that are not aligned to an element. One of no bytes is always right.
CUresult CheckFill(const Driver& driver, const Context& context, const Fill& fill);
inline bool IsEmpty(const Fill& fill) { return fill.count == 0 || fill.rows == 0; }

}  // namespace cuspan::softgpu
