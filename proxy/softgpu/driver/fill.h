// Memory fills of streams and graphs.
#pragma once

#include <cuda.h>

#include <memory>

#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {

// Returns CUDA_ERROR_INVALID_VALUE if `context`'s device may not write the memory, or if addresses
// are not aligned to an element. An empty fill always succeeds.
CUresult CheckFill(const Driver& driver, const Context& context, const Fill& fill);
inline bool IsEmpty(const Fill& fill) { return fill.count == 0 || fill.rows == 0; }

}  // namespace cuspan::softgpu
