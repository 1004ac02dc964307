// What a launch may ask for. Pure: the device and the kernel are given as the
// client knows them.
#pragma once

#include "interpose/client/modules.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared;  // Bytes.
};

// cudaErrorInvalidConfiguration when a dimension is zero or more than the device
// has; cudaErrorLaunchOutOfResources when the kernel needs more registers than a
// block of so many threads can have; cudaErrorInvalidValue when the kernel was
// compiled for fewer threads or has less dynamic shared memory.
//
// The CUDA documentation gives the first for all dimensions; a launch with
// runtime 13.0 on an H200 returned cudaErrorInvalidValue instead.
Error CheckLaunch(const DeviceDescription& device, const LoadedKernel& kernel,
                  const LaunchShape& shape);

}  // namespace cuspan
