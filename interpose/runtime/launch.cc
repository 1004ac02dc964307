// Kernel launches: nvcc's own entry points of both generations, and the public ones.
#include <cstring>

#include "common/format.h"
#include "interpose/client/shared_event.h"
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

// Calls use(bytes) → Error with the arguments, one behind the other.
template <typename Use>
Error WithArguments(const LaunchCall& call, const LoadedKernel& kernel, Use&& use) {
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
  return use(Bytes{bytes, kernel.argument_bytes});
}

Dim3 DimOf(const dim3& size) { return {size.x, size.y, size.z}; }

bool HasClusters(const LaunchCall& call) {
  return call.cluster.x != 1 || call.cluster.y != 1 || call.cluster.z != 1;
}

Error PostLaunch(const LaunchCall& call, const LoadedKernel& kernel, const StreamTarget& target) {
  return WithArguments(call, kernel, [&](Bytes arguments) -> Error {
    if (HasClusters(call)) [[unlikely]] {
      LaunchShaped op;
      op.kernel = kernel.handle;
      op.stream = target.stream;
      op.shape = ShapeOf(call);
      op.arguments = arguments;
      return target.link->Post(op);
    }
    Launch op;
    op.kernel = kernel.handle;
    op.stream = target.stream;
    op.grid = DimOf(call.shape.grid);
    op.block = DimOf(call.shape.block);
    op.dynamic_shared = static_cast<std::uint32_t>(call.shape.dynamic_shared);
    op.cooperative = call.cooperative;
    op.arguments = arguments;
    return target.link->Post(op);
  });
}

// The kernel on the device of `link`, when it can be launched like this.
Error FindLaunchable(Session& session, Link& link, const LaunchCall& call, LoadedKernel** kernel) {
  CUSPAN_RETURN_IF_FAILED(FindKernel(link, call.function, kernel));
  const DeviceDescription& device = session.description(link.device());
  CUSPAN_RETURN_IF_FAILED(CheckLaunch(device, **kernel, call.shape));
  if (call.cooperative) {
    CUSPAN_RETURN_IF_FAILED(CheckCooperative(device, link, **kernel, call.shape));
  }
  CUSPAN_RETURN_IF_FAILED(CheckCluster(**kernel, call.shape, call.cluster));
  const std::uint64_t cluster = ClusterBlocks(**kernel, call.cluster);
  if (cluster == 1) return cudaSuccess;
  if (AttributeOf(device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0)
    return NotSupported("a launch with clusters of blocks on a device without them");
  if (cluster <= kPortableCluster) return cudaSuccess;
  int largest = 0;
  CUSPAN_RETURN_IF_FAILED(LargestCluster(link, **kernel, call, &largest));
  return cluster > static_cast<std::uint64_t>(largest) ? cudaErrorInvalidClusterSize : cudaSuccess;
}

// The launch as a node of a graph: with its arguments as they are now.
Error DescribeLaunch(Session& session, const LaunchCall& call, const StreamTarget& target,
                     Work* work) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindLaunchable(session, *target.link, call, &kernel));
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
        CUSPAN_RETURN_IF_FAILED(LaunchOn(session, target, call));
        for (const cudaEvent_t event : call.events) {
          if (event == nullptr) continue;
          CUSPAN_RETURN_IF_FAILED(SharedEvent::RecordAny(session, NumberOf(event), target));
        }
        return cudaSuccess;
      },
      [&](Session& session, const StreamTarget& target, Work* work) -> Described {
        if (call.events[0] != nullptr || call.events[1] != nullptr)
          return OrEndsCapture(NotSupported("the capture of a launch with an event"));
        return OrEndsCapture(DescribeLaunch(session, call, target, work));
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
      call->cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
      return cudaSuccess;
    case cudaLaunchAttributeProgrammaticEvent:
      call->events[0] = value.programmaticEvent.event;
      return cudaSuccess;
    case cudaLaunchAttributeLaunchCompletionEvent:
      call->events[1] = value.launchCompletionEvent.event;
      return cudaSuccess;
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
  LaunchCall call{};
  CUSPAN_RETURN_IF_FAILED(ReadConfig(config, function, arguments, &call));
  return LaunchKernel(call, meaning);
}

}  // namespace

Error ReadConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                 LaunchCall* call) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) {
    return cudaErrorInvalidValue;
  }
  *call = {function,
           {config->gridDim, config->blockDim, config->dynamicSmemBytes},
           arguments,
           config->stream};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    CUSPAN_RETURN_IF_FAILED(ApplyAttribute(config->attrs[i], call));
  }
  return cudaSuccess;
}

GridShape ShapeOf(const LaunchCall& call) {
  return {DimOf(call.shape.grid), DimOf(call.shape.block), DimOf(call.cluster),
          static_cast<std::uint32_t>(call.shape.dynamic_shared), call.cooperative};
}

Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindLaunchable(session, *target.link, call, &kernel));
  return PostLaunch(call, *kernel, target);
}

Error RecordLaunch(Session& session, Link& link, const LaunchCall& call, GraphKernel op) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindLaunchable(session, link, call, &kernel));
  return WithArguments(call, *kernel, [&](Bytes arguments) -> Error {
    op.kernel = kernel->handle;
    op.shape = ShapeOf(call);
    op.arguments = arguments;
    CUSPAN_RETURN_IF_FAILED(link.Expose(op));
    return link.PostUnseen(op);
  });
}

Error DescribeKernel(const LoadedKernel& kernel, const LaunchCall& call, Work* work) {
  if (call.arguments == nullptr && !kernel.parameter_bytes.empty()) return cudaErrorInvalidValue;
  KernelWork out;
  out.function = call.function;
  out.grid = call.shape.grid;
  out.block = call.shape.block;
  out.dynamic_shared = static_cast<unsigned>(call.shape.dynamic_shared);
  out.cooperative = call.cooperative;
  out.cluster = call.cluster;
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
