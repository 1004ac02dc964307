// Launch configurations of <<<…>>>: pushed by the expression, popped by the kernel's stub. They are
// on a stack of the calling thread and need no session.
#include "interpose/client/base/thread_state.h"
#include "interpose/runtime/entry.h"

// Declared in crt/device_functions.h and crt/host_runtime.h, headers only usable by nvcc.
CUSPAN_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                   std::size_t dynamic_shared,
                                                   CUstream_st* stream) {
  cuspan::ThisThread().configurations.push_back(
      {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, dynamic_shared, stream});
  return 0;
}

CUSPAN_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                     std::size_t* dynamic_shared, void* stream) {
  auto& stack = cuspan::ThisThread().configurations;
  if (stack.empty())
    return cuspan::KeepError(cudaErrorMissingConfiguration, __builtin_return_address(0));
  const cuspan::CallConfiguration top = stack.back();
  stack.pop_back();
  *grid = dim3(top.grid[0], top.grid[1], top.grid[2]);
  *block = dim3(top.block[0], top.block[1], top.block[2]);
  *dynamic_shared = top.dynamic_shared;
  *static_cast<void**>(stream) = top.stream;
  return cudaSuccess;
}
