// Launches as the runtime describes them.
#pragma once

#include "interpose/calls/launch.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

inline Dim3 DimOf(const dim3& size) { return {size.x, size.y, size.z}; }
inline LaunchShape ShapeOf(const dim3& grid, const dim3& block, std::size_t dynamic_shared) {
  return {DimOf(grid), DimOf(block), dynamic_shared};
}

// The launch that a configuration describes; named and refused for attributes that we do not have.
// `function` is a host stub or a cudaKernel_t.
Error ReadConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                 LaunchCall* call);

// An attribute, or its value, in the driver's type: the numbers and layouts agree.
CUlaunchAttribute DriversOf(const cudaLaunchAttribute& attribute);

}  // namespace cuspan
