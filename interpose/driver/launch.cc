// Kernel launches.
#include "interpose/calls/launch.h"

#include "interpose/calls/kernel.h"
#include "interpose/driver/launch.h"

namespace cuspan {
namespace {

// body(Session&) → Error: launches.
template <typename Body>
CUresult AnswerLaunch(CUstream stream, Body&& body) {
  return AnswerUnlessLost([&] { return AnswerOnStream(stream, body); });
}

// `call` is complete except for function and arguments.
Error LaunchFunction(CUfunction function, void** parameters, void** extra, DefaultStream meaning,
                     LaunchCall* call) {
  CUSPAN_RETURN_IF_FAILED(ReadFunction(function, call));
  CUSPAN_RETURN_IF_FAILED(ReadArguments(parameters, extra, call));
  return LaunchKernel(*call, meaning);
}

}  // namespace

Error ReadFunction(CUfunction function, LaunchCall* call) {
  if (function == nullptr || FindFunction(function, &call->function).failed())
    return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_SUCCESS;
}

Error ReadConfig(const CUlaunchConfig* config, CUfunction function, LaunchCall* call) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  *call = LaunchCall({{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes},
                     config->hStream);
  for (unsigned i = 0; i < config->numAttrs; ++i)
    CUSPAN_RETURN_IF_FAILED(ApplyAttribute(config->attrs[i], call));
  return ReadFunction(function, call);
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(
    cuLaunchKernel, _ptsz,
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
     unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
     void** extra),
    AnswerLaunch(stream, [&](Session&) {
      LaunchCall call({{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream);
      return LaunchFunction(function, parameters, extra, meaning, &call);
    }))

CUSPAN_EXPORT_TWINS(
    cuLaunchCooperativeKernel, _ptsz,
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
     unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters),
    AnswerLaunch(stream, [&](Session&) {
      LaunchCall call({{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream);
      call.cooperative = true;
      return LaunchFunction(function, parameters, nullptr, meaning, &call);
    }))

CUSPAN_EXPORT_TWINS(cuLaunchKernelEx, _ptsz,
                    (const CUlaunchConfig* config, CUfunction function, void** parameters,
                     void** extra),
                    AnswerLaunch(config != nullptr ? config->hStream : nullptr,
                                 [&](Session&) -> Error {
                                   LaunchCall call;
                                   CUSPAN_RETURN_IF_FAILED(ReadConfig(config, function, &call));
                                   CUSPAN_RETURN_IF_FAILED(ReadArguments(parameters, extra, &call));
                                   return LaunchKernel(call, meaning);
                                 }))
