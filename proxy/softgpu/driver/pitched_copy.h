// Copies of boxes of bytes, as streams and graphs have them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {

// A copy whose places were looked up. The memory at an address is not kept alive, arrays are.
struct BoxCopy {
  BoxSide target, source;
  std::size_t width = 0, height = 0, depth = 0;  // Bytes, rows, slices.
  // Memory of the program that is not registered takes part: it may go or change when the call
  // that asked for the copy returns.
  bool unregistered = false;
  std::shared_ptr<const void> arrays;

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

// Looks up the places of `copy`; CUDA_ERROR_INVALID_VALUE or _INVALID_HANDLE when `context`'s
// device can not make it.
CUresult PrepareBoxCopy(Driver& driver, const Context& context, const CUDA_MEMCPY3D& copy,
                        BoxCopy* out);
// The task that makes it; it must not be empty.
std::unique_ptr<Task> MakeBoxCopyTask(const BoxCopy& copy, int priority,
                                      std::shared_ptr<Context> context);

}  // namespace cuspan::softgpu
