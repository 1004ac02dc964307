// Copies of boxes of bytes of streams and graphs.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/transfer.h"

namespace cuspan::softgpu {

// Copy with resolved addresses. It keeps arrays alive, but not memory at addresses.
struct BoxCopy {
  BoxSide target, source;
  std::size_t width = 0, height = 0, depth = 0;  // Bytes, rows, slices.
  // One side is unregistered host memory: it may be freed or changed after the requesting call
  // returns.
  bool unregistered = false;
  std::shared_ptr<const void> arrays;

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

// Resolves the addresses of `copy`. Returns CUDA_ERROR_INVALID_VALUE or _INVALID_HANDLE if
// `context`'s device cannot make the copy.
CUresult PrepareBoxCopy(Driver& driver, const Context& context, const CUDA_MEMCPY3D& copy,
                        BoxCopy* out);
// Makes the task for a copy. The copy must not be empty.
std::unique_ptr<Task> MakeBoxCopyTask(const BoxCopy& copy, int priority,
                                      std::shared_ptr<Context> context);

}  // namespace cuspan::softgpu
