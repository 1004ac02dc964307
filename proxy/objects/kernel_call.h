// Parameters of a kernel launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/api/types.h"
#include "proxy/objects/code.h"

namespace cuspan::proxy {

// Fills in pointers to the arguments, as needed by the driver. FindKernel has checked their size.
inline void PointAtArguments(const Kernel& kernel, Bytes arguments, std::vector<void*>& pointers) {
  pointers.clear();
  const std::byte* next = arguments.data();
  for (const std::uint32_t bytes : kernel.parameter_bytes) {
    pointers.push_back(const_cast<std::byte*>(next));
    next += bytes;
  }
}

// Parameters of a kernel launch, for ops waiting in a queue.
struct KernelCall {
  std::shared_ptr<Kernel> kernel;
  GridShape shape;
  Bytes arguments;  // Located in the frame, or in `kept`.
  std::vector<std::byte> kept;

  // Copies the arguments out of the frame; see StreamOp::Keep.
  std::size_t Keep() {
    kept.assign(arguments.begin(), arguments.end());
    arguments = kept;
    return kept.size();
  }
};

// Sets the sizes in any launch structure of the driver.
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

// Returns the driver's parameters of a launch with clusters. Valid as long as `attributes`.
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

// Launches the kernel. `arguments`: see cuLaunchKernel. Threads: any with the device's context.
CUresult LaunchKernel(const Driver& driver, CUfunction kernel, const GridShape& shape,
                      CUstream stream, void** arguments);

// Returns the parameters of a kernel node. `pointers`: see PointAtArguments.
inline CUgraphNodeParams KernelNode(const Kernel& kernel, const GridShape& shape,
                                    std::vector<void*>& pointers) {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
  parameters.kernel.func = kernel.driver;
  SetSizes(shape, parameters.kernel);
  parameters.kernel.kernelParams = pointers.data();
  return parameters;
}

}  // namespace cuspan::proxy
