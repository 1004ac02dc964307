#include "interpose/calls/launch_limits.h"

#include <algorithm>

#include "interpose/calls/base/attributes.h"

namespace cuspan {
namespace {

bool Within(unsigned value, int most) {
  return value != 0 && (most == 0 || value <= static_cast<unsigned>(most));
}

std::uint64_t Volume(const Dim3& size) { return std::uint64_t{size.x} * size.y * size.z; }

unsigned CompiledCluster(const LoadedKernel& kernel, CUfunction_attribute side) {
  return static_cast<unsigned>(std::max(kernel.attribute(side), 1));
}

Dim3 ClusterOf(const LoadedKernel& kernel, const Dim3& asked) {
  if (Volume(asked) != 1) return asked;
  return {CompiledCluster(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
          CompiledCluster(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
          CompiledCluster(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
}

}  // namespace

// Called for each launch. Does not use ClusterOf: reading a struct right after writing its fields
// stalls the processor (store forwarding). The stall took a tenth of a launch.
std::uint64_t ClusterBlocks(const LoadedKernel& kernel, const Dim3& asked) {
  if (const std::uint64_t volume = Volume(asked); volume != 1) return volume;
  return std::uint64_t{CompiledCluster(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)} *
         CompiledCluster(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT) *
         CompiledCluster(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
}

Error CheckCluster(const LoadedKernel& kernel, const LaunchShape& shape, const Dim3& asked) {
  const auto divides = [](unsigned part, unsigned whole) { return part != 0 && whole % part == 0; };
  const Dim3 cluster = ClusterOf(kernel, asked);
  if (Volume(cluster) == 1) return CUDA_SUCCESS;
  if (!divides(cluster.x, shape.grid.x) || !divides(cluster.y, shape.grid.y) ||
      !divides(cluster.z, shape.grid.z)) {
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  if (Volume(cluster) > kPortableCluster &&
      kernel.attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == 0) {
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  return CUDA_SUCCESS;
}

Error CheckLaunch(const DeviceDescription& device, const LoadedKernel& kernel,
                  const LaunchShape& shape, bool cooperative) {
  const auto most = [&](CUdevice_attribute which) { return AttributeOf(device, which); };
  if (!Within(shape.grid.x, most(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)) ||
      !Within(shape.grid.y, most(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)) ||
      !Within(shape.grid.z, most(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)) ||
      !Within(shape.block.x, most(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)) ||
      !Within(shape.block.y, most(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)) ||
      !Within(shape.block.z, most(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z))) {
    return cudaErrorInvalidConfiguration;
  }
  const std::uint64_t threads = Volume(shape.block);
  const int device_threads = most(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (device_threads > 0 && threads > static_cast<std::uint64_t>(device_threads)) {
    return cudaErrorInvalidConfiguration;
  }
  const int kernel_threads = kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (kernel_threads > 0 && threads > static_cast<std::uint64_t>(kernel_threads)) {
    const auto registers = static_cast<std::uint64_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS));
    const auto device_registers =
        static_cast<std::uint64_t>(most(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK));
    return registers * threads > device_registers ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                                  : CUDA_ERROR_INVALID_VALUE;
  }
  const int shared = kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  if (shape.dynamic_shared <= static_cast<std::size_t>(shared)) return CUDA_SUCCESS;
  return cooperative ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace cuspan
