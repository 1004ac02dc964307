// What launches by the host and by kernels have in common.
#pragma once

#include <cuda.h>

#include <memory>

#include "proxy/softgpu/driver/module.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/launch.h"

namespace cuspan::softgpu {

struct LaunchShape {
  Dimensions grid, block;
  unsigned dynamic_shared = 0;
};

// CUDA_ERROR_INVALID_VALUE for what no device can launch, whatever the kernel.
CUresult CheckShape(const LaunchShape& shape);
// Fills all of `launch` but params, envreg, cooperative, children and code; compiles the kernel
// when that has not happened yet. Fails as CheckShape, also for what this kernel does not allow.
CUresult PrepareLaunch(Driver& driver, const std::shared_ptr<Context>& context, Function& function,
                       const LaunchShape& shape, Launch* launch);

// What the grids of a launch of `module`, whose tasks have `priority`, launch themselves.
std::shared_ptr<ChildLaunches> MakeChildLaunches(Driver& driver, std::shared_ptr<Context> context,
                                                 std::shared_ptr<Module> module, int priority);

}  // namespace cuspan::softgpu
