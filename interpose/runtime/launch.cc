// Kernel launches. __cudaLaunchKernel of nvcc's code is another name of cudaLaunchKernel.
#include "interpose/runtime/launch.h"

#include "interpose/runtime/caller.h"
#include "interpose/runtime/kernel.h"
#include "interpose/runtime/same_bytes.h"

namespace cuspan {
namespace {

Error LaunchWith(const void* function, const LaunchShape& shape, void** arguments,
                 cudaStream_t stream, DefaultStream meaning, bool cooperative = false) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  LaunchCall call(shape, stream);
  call.arguments = arguments;
  call.cooperative = cooperative;
  CUSPAN_RETURN_IF_FAILED(FindFunction(function, &call.function));
  return LaunchKernel(call, meaning);
}

Error LaunchWithConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                       DefaultStream meaning) {
  LaunchCall call;
  CUSPAN_RETURN_IF_FAILED(ReadConfig(config, function, arguments, &call));
  return LaunchKernel(call, meaning);
}

// Converts a launch's result for the release of the code at `caller` (see CheckLaunch).
Error ForRelease(Error result, const void* caller) {
  if (result.runtime() != cudaErrorInvalidConfiguration) [[likely]]
    return result;
  return CallerIsBefore13(caller) ? result : Error(cudaErrorInvalidValue);
}

}  // namespace

CUlaunchAttribute DriversOf(const cudaLaunchAttribute& attribute) {
  return SameBytes<CUlaunchAttribute>(attribute);
}

Error ReadConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                 LaunchCall* call) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
    return cudaErrorInvalidValue;
  *call = LaunchCall(ShapeOf(config->gridDim, config->blockDim, config->dynamicSmemBytes),
                     config->stream);
  call->arguments = arguments;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    CUSPAN_RETURN_IF_FAILED(ApplyAttribute(DriversOf(config->attrs[i]), call));
  return FindFunction(function, &call->function);
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaLaunchKernel, _ptsz,
                    (const void* function, dim3 grid, dim3 block, void** arguments,
                     std::size_t dynamic_shared, cudaStream_t stream),
                    Answer([&, caller = __builtin_return_address(0)] {
                      return ForRelease(LaunchWith(function, ShapeOf(grid, block, dynamic_shared),
                                                   arguments, stream, meaning),
                                        caller);
                    }))

CUSPAN_EXPORT_TWINS(cudaLaunchCooperativeKernel, _ptsz,
                    (const void* function, dim3 grid, dim3 block, void** arguments,
                     std::size_t dynamic_shared, cudaStream_t stream),
                    Answer([&, caller = __builtin_return_address(0)] {
                      return ForRelease(LaunchWith(function, ShapeOf(grid, block, dynamic_shared),
                                                   arguments, stream, meaning, true),
                                        caller);
                    }))

CUSPAN_EXPORT_TWINS(cudaLaunchKernelExC, _ptsz,
                    (const cudaLaunchConfig_t* config, const void* function, void** arguments),
                    Answer([&, caller = __builtin_return_address(0)] {
                      return ForRelease(LaunchWithConfig(config, function, arguments, meaning),
                                        caller);
                    }))
