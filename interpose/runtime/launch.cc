// Kernel launches: nvcc's own entry points of both generations, and the public ones.
#include "common/format.h"

#include <cstring>

#include "interpose/runtime/capture.h"
#include "interpose/runtime/device_properties.h"
#include "interpose/runtime/function.h"
#include "interpose/runtime/launch.h"
#include "interpose/runtime/occupancy.h"

namespace cuspan {
namespace {

// CUDA's limit for the arguments of one launch, in bytes.
constexpr std::size_t kMaxArgumentBytes = 32764;

// All blocks of a cooperative launch must be resident at once.
Error CheckCooperative(const DeviceDescription& device, Link& link, const LoadedKernel& kernel,
                       const LaunchShape& shape) {
  if (AttributeOf(device, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) == 0) {
    return cudaErrorNotSupported;
  }
  int resident = 0;
  const auto threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  CUSPAN_RETURN_IF_FAILED(
      ActiveBlocks(link, kernel, threads, shape.dynamic_shared, cudaOccupancyDefault, &resident));
  const std::uint64_t room = static_cast<std::uint64_t>(resident) *
                             AttributeOf(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  // The product of the limits of a grid can pass 64 bits: compared by division.
  const std::uint64_t plane = std::uint64_t{shape.grid.x} * shape.grid.y;
  return plane > room || plane * shape.grid.z > room ? cudaErrorCooperativeLaunchTooLarge
                                                     : cudaSuccess;
}

Error PostLaunch(const LaunchCall& call, const LoadedKernel& kernel, const StreamTarget& target) {
  // Not initialised: only what is filled in below is sent.
  std::byte bytes[kMaxArgumentBytes];
  if (kernel.argument_bytes > sizeof bytes) return cudaErrorInvalidValue;
  if (call.arguments == nullptr && !kernel.parameter_bytes.empty()) return cudaErrorInvalidValue;
  std::byte* next = bytes;
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    if (call.arguments[i] == nullptr) return cudaErrorInvalidValue;
    std::memcpy(next, call.arguments[i], kernel.parameter_bytes[i]);
    next += kernel.parameter_bytes[i];
  }
  Launch op;
  op.kernel = kernel.handle;
  op.stream = target.stream;
  op.grid = {call.shape.grid.x, call.shape.grid.y, call.shape.grid.z};
  op.block = {call.shape.block.x, call.shape.block.y, call.shape.block.z};
  op.dynamic_shared = static_cast<std::uint32_t>(call.shape.dynamic_shared);
  op.cooperative = call.cooperative;
  op.arguments = {bytes, kernel.argument_bytes};
  return target.link->Post(op);
}

// The launch as a node of a graph: with its arguments as they are now.
Error DescribeLaunch(const LaunchCall& call, const StreamTarget& target, Work* work) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindKernel(*target.link, call.function, &kernel));
  return DescribeKernel(*kernel, call, work);
}

Error LaunchKernel(const LaunchCall& call, DefaultStream meaning) {
  if (call.function == nullptr) return cudaErrorInvalidDeviceFunction;
  return InStream(
      call.stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        if (target.link->device() != ThisThread().current_device) {
          return cudaErrorInvalidResourceHandle;
        }
        return LaunchOn(session, target, call);
      },
      [&](Session&, const StreamTarget& target, Work* work) {
        return DescribeLaunch(call, target, work);
      });
}

// Takes what is understood of one attribute into `call`.
Error ApplyAttribute(const cudaLaunchAttribute& attribute, LaunchCall* call) {
  const cudaLaunchAttributeValue& value = attribute.val;
  switch (attribute.id) {
    case cudaLaunchAttributeIgnore:
      return cudaSuccess;
    case cudaLaunchAttributeCooperative:
      call->cooperative = value.cooperative != 0;
      return cudaSuccess;
    case cudaLaunchAttributeClusterDimension:
      // A cluster of one block is what a launch without clusters has.
      if (value.clusterDim.x == 1 && value.clusterDim.y == 1 && value.clusterDim.z == 1) {
        return cudaSuccess;
      }
      break;
    // Leave to begin early, which need not be taken.
    case cudaLaunchAttributeProgrammaticStreamSerialization:
    // Hints: what a kernel computes does not depend on them.
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeClusterSchedulingPolicyPreference:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributeMemSyncDomain:
    case cudaLaunchAttributePreferredSharedMemoryCarveout:
      return cudaSuccess;
    case cudaLaunchAttributeDeviceUpdatableKernelNode:
      if (value.deviceUpdatableKernelNode.deviceUpdatable == 0) return cudaSuccess;
      break;
    default:
      break;
  }
  return NotSupported(
      Format("cudaLaunchKernelExC with attribute {}", static_cast<int>(attribute.id)));
}

Error LaunchWithConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                       DefaultStream meaning) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) {
    return cudaErrorInvalidValue;
  }
  LaunchCall call{function,
                  {config->gridDim, config->blockDim, config->dynamicSmemBytes},
                  arguments,
                  config->stream};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    CUSPAN_RETURN_IF_FAILED(ApplyAttribute(config->attrs[i], &call));
  }
  return LaunchKernel(call, meaning);
}

}  // namespace

Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call) {
  Link& link = *target.link;
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindKernel(link, call.function, &kernel));
  const DeviceDescription& device = session.description(link.device());
  CUSPAN_RETURN_IF_FAILED(CheckLaunch(device, *kernel, call.shape));
  if (call.cooperative) {
    CUSPAN_RETURN_IF_FAILED(CheckCooperative(device, link, *kernel, call.shape));
  }
  return PostLaunch(call, *kernel, target);
}

Error DescribeKernel(const LoadedKernel& kernel, const LaunchCall& call, Work* work) {
  if (call.arguments == nullptr && !kernel.parameter_bytes.empty()) return cudaErrorInvalidValue;
  KernelWork out{call.function,    call.shape.grid,
                 call.shape.block, static_cast<unsigned>(call.shape.dynamic_shared),
                 call.cooperative, {}};
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    if (call.arguments[i] == nullptr) return cudaErrorInvalidValue;
    const auto* const bytes = static_cast<const std::byte*>(call.arguments[i]);
    out.arguments.emplace_back(bytes, bytes + kernel.parameter_bytes[i]);
  }
  *work = std::move(out);
  return cudaSuccess;
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Declared in crt/device_functions.h, which only nvcc can include.
CUSPAN_EXPORT_TWINS(
    __cudaLaunchKernel, _ptsz,
    (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t dynamic_shared,
     cudaStream_t stream),
    Answer([&] {
      return LaunchKernel({kernel, {grid, block, dynamic_shared}, arguments, stream}, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaLaunchKernel, _ptsz,
    (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t dynamic_shared,
     cudaStream_t stream),
    Answer([&] {
      return LaunchKernel({function, {grid, block, dynamic_shared}, arguments, stream}, meaning);
    }))

CUSPAN_EXPORT_TWINS(cudaLaunchCooperativeKernel, _ptsz,
                    (const void* function, dim3 grid, dim3 block, void** arguments,
                     std::size_t dynamic_shared, cudaStream_t stream),
                    Answer([&] {
                      return LaunchKernel(
                          {function, {grid, block, dynamic_shared}, arguments, stream, true},
                          meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaLaunchKernelExC, _ptsz,
                    (const cudaLaunchConfig_t* config, const void* function, void** arguments),
                    Answer([&] { return LaunchWithConfig(config, function, arguments, meaning); }))
