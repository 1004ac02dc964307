// Functions shared by launches of the host and of kernels.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/softgpu/driver/module.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/rt/launch.h"

namespace cuspan::softgpu {

struct LaunchShape {
  Dimensions grid, block;
  unsigned dynamic_shared = 0;
};

// Copies the arguments of a launch to their offsets in `copied`. As for cuLaunchKernel, the source
// is `params`, one pointer per argument, or a packed buffer in `extra`.
CUresult CopyParams(const KernelInfo& info, void** params, void** extra,
                    std::vector<std::uint64_t>* copied);

// Returns CUDA_ERROR_INVALID_VALUE if no kernel can be launched with this shape.
CUresult CheckShape(const LaunchShape& shape);
// Fills in `launch` except params, grid_id, envreg, cooperative, children, conditions and code.
// Compiles the kernel if needed. Fails like CheckShape, and for shapes not allowed by this kernel.
CUresult PrepareLaunch(Driver& driver, const std::shared_ptr<Context>& context, Function& function,
                       const LaunchShape& shape, Launch* launch);

// Fills in `launch` for a launch by the host, except params, conditions and the fields set by
// MakeGridTask. Checks the size of a cooperative launch, too.
CUresult PrepareHostLaunch(Driver& driver, const std::shared_ptr<Context>& context,
                           Function& function, const LaunchShape& shape, bool cooperative,
                           Launch* launch);
// Makes the task executing `launch`, a launch of a kernel of `module`. Copies of `launch` may
// become further tasks.
std::unique_ptr<Task> MakeGridTask(Driver& driver, const std::shared_ptr<Context>& context,
                                   const std::shared_ptr<Module>& module, Launch launch,
                                   int priority);

// Makes the list of child launches of a grid of `module`. Child tasks have `priority` and may set
// `conditions`.
std::shared_ptr<ChildLaunches> MakeChildLaunches(Driver& driver, std::shared_ptr<Context> context,
                                                 std::shared_ptr<Module> module, int priority,
                                                 std::shared_ptr<GraphConditions> conditions);

}  // namespace cuspan::softgpu
