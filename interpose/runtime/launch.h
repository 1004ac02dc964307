// Launches as described by the runtime's parameters.
#pragma once

#include "interpose/calls/launch.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

inline Dim3 DimOf(const dim3& size) { return {size.x, size.y, size.z}; }
inline LaunchShape ShapeOf(const dim3& grid, const dim3& block, std::size_t dynamic_shared) {
  return {DimOf(grid), DimOf(block), dynamic_shared};
}

// Converts a configuration to a launch. Logs unsupported attributes and returns an error.
// `function` is a host stub or a cudaKernel_t.
Error ReadConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                 LaunchCall* call);

// The attribute in the driver's type. Numbers and layouts are equal.
CUlaunchAttribute DriversOf(const cudaLaunchAttribute& attribute);

}  // namespace cuspan
