#include "proxy/objects/kernel_call.h"

namespace cuspan::proxy {

CUresult LaunchKernel(const Driver& driver, CUfunction kernel, const GridShape& shape,
                      CUstream stream, void** arguments) {
  const auto& [grid, block, cluster, dynamic_shared, cooperative] = shape;
  if (cluster.x != 1 || cluster.y != 1 || cluster.z != 1) {
    if (driver.cuLaunchKernelEx == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    std::array<CUlaunchAttribute, 2> attributes{};
    const CUlaunchConfig config = ClusterConfig(shape, stream, attributes);
    return driver.cuLaunchKernelEx(&config, kernel, arguments, nullptr);
  }
  return cooperative
             ? driver.cuLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                                block.z, dynamic_shared, stream, arguments)
             : driver.cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     dynamic_shared, stream, arguments, nullptr);
}

}  // namespace cuspan::proxy
