#include "proxy/softgpu/rt/launch.h"

#include <algorithm>

#include "proxy/softgpu/rt/stack.h"

namespace cuspan::softgpu {
namespace {

// Size for frames of optimised code; they are larger than on a GPU.
constexpr std::size_t kStackBase = 12 * 1024;
// Kernels without suspension have one stack for all threads of a block.
constexpr std::size_t kLoopStackBytes = 252 * 1024;

}  // namespace

void Launch::Use(const CompiledKernel& code) {
  compiled = code;
  // A warp's frames hold 32 lanes' registers and variables.
  const std::size_t lanes = code.warps ? kWarpLanes : 1;
  const std::size_t bytes = kStackBase + code.frame_bytes + lanes * stack_of_thread;
  stack_bytes = std::min(code.needs_fibers ? bytes : std::max(bytes, kLoopStackBytes),
                         kLargestStack - kStackBase);
}

}  // namespace cuspan::softgpu
