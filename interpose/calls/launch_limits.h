// Limits of launches. Pure functions of the client's descriptions of device and kernel.
#pragma once

#include "interpose/calls/base/error.h"
#include "interpose/client/modules.h"
#include "structs.gen.h"

namespace cuspan {

struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  std::size_t dynamic_shared;  // Bytes.
};

// cudaErrorInvalidConfiguration if a dimension is zero or exceeds the device's limit.
// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES if the block needs more registers than a block can have.
// CUDA_ERROR_INVALID_VALUE if the kernel was compiled for fewer threads, or has less dynamic shared
// memory. In the last case a cooperative launch is CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: no
// block of it would be resident.
//
// Only launches by the runtimes of CUDA 11 and 12 return the first error to programs. Runtime 13,
// the driver and graph nodes return CUDA_ERROR_INVALID_VALUE for it (runtimes 11.8, 12.1, 12.8 and
// 13.0 with driver 580).
Error CheckLaunch(const DeviceDescription& device, const LoadedKernel& kernel,
                  const LaunchShape& shape, bool cooperative = false);

// Maximum blocks of a cluster on all devices with clusters. A function can allow more (CUDA C++
// Programming Guide, Thread Block Clusters).
inline constexpr std::uint64_t kPortableCluster = 8;

// Blocks per cluster of a launch requesting `asked`. If it requests one block, the kernel's
// compiled cluster size.
std::uint64_t ClusterBlocks(const LoadedKernel& kernel, const Dim3& asked);

// CUDA_ERROR_INVALID_CLUSTER_SIZE if the grid is no multiple of this cluster, or if the cluster has
// more blocks than the kernel allows.
Error CheckCluster(const LoadedKernel& kernel, const LaunchShape& shape, const Dim3& asked);

}  // namespace cuspan
