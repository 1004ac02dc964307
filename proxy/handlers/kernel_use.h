// What ops that run a kernel have in common.
#pragma once

#include <array>

#include "proxy/device_session.h"

namespace cuspan::proxy {

// kInvalid when there is no such kernel, or the arguments are not as many bytes as it takes.
inline Result<std::shared_ptr<Kernel>> FindKernel(DeviceSession& session, std::uint64_t handle,
                                                  Bytes arguments) {
  Result<std::shared_ptr<Kernel>> kernel = session.kernels.Get(handle);
  if (kernel.ok() && arguments.size() != (*kernel)->argument_bytes)
    return Status::Invalid("a launch with {} bytes of arguments of a kernel that takes {}",
                           arguments.size(), (*kernel)->argument_bytes);
  return kernel;
}

// The arguments of a kernel, of the size that FindKernel checked, as the driver takes them.
inline void PointAtArguments(const Kernel& kernel, Bytes arguments, std::vector<void*>& pointers) {
  pointers.clear();
  const std::byte* next = arguments.data();
  for (const std::uint32_t bytes : kernel.parameter_bytes) {
    pointers.push_back(const_cast<std::byte*>(next));
    next += bytes;
  }
}

// A kernel as it is to run, for ops that may have to wait.
struct KernelCall {
  std::shared_ptr<Kernel> kernel;
  GridShape shape;
  Bytes arguments;  // In the frame, or in `kept`.
  std::vector<std::byte> kept;

  // The frame goes: as StreamOp::Keep.
  std::size_t Keep() {
    kept.assign(arguments.begin(), arguments.end());
    arguments = kept;
    return kept.size();
  }
};

// The sizes of a launch, in any of the driver's descriptions of one.
template <typename Launch>
void SetSizes(const GridShape& shape, Launch& launch) {
  launch.gridDimX = shape.grid.x;
  launch.gridDimY = shape.grid.y;
  launch.gridDimZ = shape.grid.z;
  launch.blockDimX = shape.block.x;
  launch.blockDimY = shape.block.y;
  launch.blockDimZ = shape.block.z;
  launch.sharedMemBytes = shape.dynamic_shared;
}

// What a launch of clusters is to the driver; valid as long as `attributes`.
inline CUlaunchConfig ClusterConfig(const GridShape& shape, CUstream stream,
                                    std::array<CUlaunchAttribute, 2>& attributes) {
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[1].value.cooperative = shape.cooperative ? 1 : 0;
  CUlaunchConfig config{};
  SetSizes(shape, config);
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = attributes.size();
  return config;
}

}  // namespace cuspan::proxy
