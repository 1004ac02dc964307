// What launches by the host and by kernels have in common.
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

// Copies the arguments of a launch to their places in `params`, from one pointer each or from a
// packed buffer, as cuLaunchKernel takes them.
CUresult CopyParams(const KernelInfo& info, void** params, void** extra,
                    std::vector<std::uint64_t>* copied);

// CUDA_ERROR_INVALID_VALUE for what no device can launch, whatever the kernel.
CUresult CheckShape(const LaunchShape& shape);
// Fills all of `launch` but params, grid_id, envreg, cooperative, children, conditions and code;
// compiles the kernel when that has not happened yet. Fails as CheckShape, also for what this
// kernel does not allow.
CUresult PrepareLaunch(Driver& driver, const std::shared_ptr<Context>& context, Function& function,
                       const LaunchShape& shape, Launch* launch);

// The same for a launch by the host: all but params, conditions and what MakeGridTask adds. Checks
// what a cooperative one asks for, too.
CUresult PrepareHostLaunch(Driver& driver, const std::shared_ptr<Context>& context,
                           Function& function, const LaunchShape& shape, bool cooperative,
                           Launch* launch);
// The task that executes `launch`, of a kernel of `module`; a copy of `launch` may become another.
std::unique_ptr<Task> MakeGridTask(Driver& driver, const std::shared_ptr<Context>& context,
                                   const std::shared_ptr<Module>& module, Launch launch,
                                   int priority);

// What the grids of a launch of `module`, whose tasks have `priority` and which may set
// `conditions`, launch themselves.
std::shared_ptr<ChildLaunches> MakeChildLaunches(Driver& driver, std::shared_ptr<Context> context,
                                                 std::shared_ptr<Module> module, int priority,
                                                 std::shared_ptr<GraphConditions> conditions);

}  // namespace cuspan::softgpu
