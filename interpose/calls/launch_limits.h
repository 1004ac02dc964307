// What a launch may ask for. Pure: the device and the kernel are given as the
// client knows them.
#pragma once

#include "interpose/calls/error.h"
#include "interpose/client/modules.h"
#include "structs.gen.h"

namespace cuspan {

struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  std::size_t dynamic_shared;  // Bytes.
};

// cudaErrorInvalidConfiguration when a dimension is zero or more than the device has;
// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES when the kernel needs more registers than a block of so many
// threads can have; CUDA_ERROR_INVALID_VALUE when the kernel was compiled for fewer threads or has
// less dynamic shared memory. In the last case a cooperative launch is
// CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: no block of it would be resident.
//
// Only launches by the runtimes of CUDA 11 and 12 return the first error to programs. Runtime 13,
// the driver and graph nodes return CUDA_ERROR_INVALID_VALUE for it (runtimes 11.8, 12.1, 12.8 and
// 13.0 with driver 580).
Error CheckLaunch(const DeviceDescription& device, const LoadedKernel& kernel,
                  const LaunchShape& shape, bool cooperative = false);

// Blocks of a cluster that every device with clusters takes; more only where a function allows it
// (CUDA C++ Programming Guide, Thread Block Clusters).
inline constexpr std::uint64_t kPortableCluster = 8;

// Blocks of a cluster of a launch that asks for `asked`; of one that asks for a single block, as
// many as the kernel was compiled with.
std::uint64_t ClusterBlocks(const LoadedKernel& kernel, const Dim3& asked);

// CUDA_ERROR_INVALID_CLUSTER_SIZE when the grid is no multiple of that cluster, or when it has more
// blocks than the kernel allows.
Error CheckCluster(const LoadedKernel& kernel, const LaunchShape& shape, const Dim3& asked);

}  // namespace cuspan
