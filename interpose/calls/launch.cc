#include "interpose/calls/launch.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/format.h"
#include "interpose/calls/base/attributes.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/occupancy.h"
#include "interpose/calls/pinned.h"

namespace cuspan {
namespace {

// CUDA's limit for the arguments of one launch, in bytes.
constexpr std::size_t kMaxArgumentBytes = 32764;

// All blocks of a cooperative launch must be resident at once.
Error CheckCooperative(const DeviceDescription& device, ContextConnection& connection,
                       const LoadedKernel& kernel, const LaunchShape& shape) {
  if (AttributeOf(device, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  int resident = 0;
  const auto threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  CUSPAN_RETURN_IF_FAILED(ActiveBlocks(connection, kernel, threads, shape.dynamic_shared,
                                       CU_OCCUPANCY_DEFAULT, &resident));
  const std::uint64_t room = static_cast<std::uint64_t>(resident) *
                             AttributeOf(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  // The product of a grid's dimensions may exceed 64 bits: compared by division.
  const std::uint64_t plane = std::uint64_t{shape.grid.x} * shape.grid.y;
  return plane > room || plane * shape.grid.z > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                                                     : CUDA_SUCCESS;
}

// Checks the source of the arguments. A buffer may exceed them by the padding at the end of a
// struct.
Error CheckArguments(const LaunchCall& call, const LoadedKernel& kernel) {
  if (kernel.parameter_bytes.empty()) return CUDA_SUCCESS;
  if (call.arguments != nullptr) return CUDA_SUCCESS;
  if (call.buffer == nullptr || call.buffer_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr std::size_t kLargestAlignment = 16;
  const std::size_t end = kernel.parameter_offsets.back() + kernel.parameter_bytes.back();
  const std::size_t most = (end + kLargestAlignment - 1) / kLargestAlignment * kLargestAlignment;
  return call.buffer_bytes > most ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
}

// False if the argument is missing.
inline bool CopyArgument(const LaunchCall& call, const LoadedKernel& kernel, std::size_t index,
                         std::byte* out) {
  const std::size_t bytes = kernel.parameter_bytes[index];
  if (call.arguments != nullptr) [[likely]] {
    if (call.arguments[index] == nullptr) return false;
    std::memcpy(out, call.arguments[index], bytes);
    return true;
  }
  // CUDA accepts buffers ending before the arguments do. The rest is zero.
  const std::size_t offset = kernel.parameter_offsets[index];
  const std::size_t given =
      std::min(bytes, call.buffer_bytes - std::min(offset, call.buffer_bytes));
  std::memcpy(out, static_cast<const std::byte*>(call.buffer) + offset, given);
  std::memset(out + given, 0, bytes - given);
  return true;
}

// Arguments up to this size, in bytes, need no allocation. Some programs launch on stacks of 24
// KiB.
constexpr std::size_t kArgumentBytesOnStack = 1024;

// Calls use(bytes) → Error with the arguments, packed without gaps.
template <typename Use>
Error WithArguments(Session& session, const ContextConnection& connection, const LaunchCall& call,
                    const LoadedKernel& kernel, Use&& use) {
  if (kernel.argument_bytes > kMaxArgumentBytes) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(CheckArguments(call, kernel));
  // Neither is initialised: only bytes filled in below are sent.
  std::byte few[kArgumentBytesOnStack];
  std::unique_ptr<std::byte[]> many;
  if (kernel.argument_bytes > sizeof few) [[unlikely]]
    many.reset(new std::byte[kernel.argument_bytes]);
  std::byte* const bytes = many != nullptr ? many.get() : few;
  std::byte* next = bytes;
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    if (!CopyArgument(call, kernel, i, next)) return CUDA_ERROR_INVALID_VALUE;
    next += kernel.parameter_bytes[i];
  }
  CUSPAN_RETURN_IF_FAILED(PointAtRegistered(session, connection, {bytes, kernel.argument_bytes},
                                            kernel.parameter_bytes));
  return use(Bytes{bytes, kernel.argument_bytes});
}

Error PostLaunch(Session& session, const LaunchCall& call, const LoadedKernel& kernel,
                 const StreamTarget& target) {
  return WithArguments(session, *target.connection, call, kernel, [&](Bytes arguments) -> Error {
    CUSPAN_RETURN_IF_FAILED(
        target.connection->coherence().Expose(arguments, kernel.parameter_bytes));
    if (HasClusters(call)) [[unlikely]] {
      LaunchShaped op;
      op.kernel = kernel.handle;
      op.stream = target.stream;
      op.shape = ShapeOf(call);
      op.arguments = arguments;
      return target.connection->Post(op);
    }
    Launch op;
    op.kernel = kernel.handle;
    op.stream = target.stream;
    op.grid = call.shape.grid;
    op.block = call.shape.block;
    op.dynamic_shared = static_cast<std::uint32_t>(call.shape.dynamic_shared);
    op.cooperative = call.cooperative;
    op.arguments = arguments;
    WaitMarks& marks = target.connection->wait_marks();
    const WaitMarks::LaunchMark mark = marks.BeforeLaunch(target.stream);
    op.mark = mark.number;
    op.value = mark.value;
    std::uint64_t sequence = 0;
    CUSPAN_RETURN_IF_FAILED(target.connection->Post(op, &sequence));
    marks.AfterLaunch(target.stream, sequence, mark);
    return CUDA_SUCCESS;
  });
}

// A module's kernel runs only in the module's context.
Error CheckOwner(const LaunchCall& call, const ContextConnection& connection) {
  const std::uint64_t owner = call.function->fatbin->owner;
  return owner == 0 || owner == connection.number() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Finds the kernel on the device of `connection`, and checks the launch.
Error FindLaunchable(Session& session, ContextConnection& connection, const LaunchCall& call,
                     LoadedKernel** kernel) {
  CUSPAN_RETURN_IF_FAILED(CheckOwner(call, connection));
  CUSPAN_RETURN_IF_FAILED(FindKernel(connection, *call.function, kernel));
  const DeviceDescription& device = session.devices().description(connection.device());
  CUSPAN_RETURN_IF_FAILED(CheckLaunch(device, **kernel, call.shape, call.cooperative));
  if (call.cooperative) {
    CUSPAN_RETURN_IF_FAILED(CheckCooperative(device, connection, **kernel, call.shape));
  }
  const std::uint64_t cluster = ClusterBlocks(**kernel, call.cluster);
  if (cluster == 1) [[likely]]
    return CUDA_SUCCESS;
  CUSPAN_RETURN_IF_FAILED(CheckCluster(**kernel, call.shape, call.cluster));
  if (AttributeOf(device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0)
    return NotSupported("a launch with thread block clusters on a device without them");
  if (cluster <= kPortableCluster) return CUDA_SUCCESS;
  int largest = 0;
  CUSPAN_RETURN_IF_FAILED(LargestCluster(connection, **kernel, call, &largest));
  return cluster > static_cast<std::uint64_t>(largest) ? CUDA_ERROR_INVALID_CLUSTER_SIZE
                                                       : CUDA_SUCCESS;
}

// DescribeKernel for a loaded kernel.
Error DescribeFound(const LoadedKernel& kernel, const LaunchCall& call, Work* work) {
  KernelWork out;
  out.function = SharedRecord(*call.function);
  out.grid = call.shape.grid;
  out.block = call.shape.block;
  out.dynamic_shared = static_cast<unsigned>(call.shape.dynamic_shared);
  out.cooperative = call.cooperative;
  out.cluster = call.cluster;
  CUSPAN_RETURN_IF_FAILED(CheckArguments(call, kernel));
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    auto& bytes = out.arguments.emplace_back(kernel.parameter_bytes[i]);
    if (!CopyArgument(call, kernel, i, bytes.data())) return CUDA_ERROR_INVALID_VALUE;
  }
  *work = std::move(out);
  return CUDA_SUCCESS;
}

// Describes the launch as a node of a graph, with the current arguments.
Error DescribeLaunch(Session& session, const LaunchCall& call, const StreamTarget& target,
                     Work* work) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindLaunchable(session, *target.connection, call, &kernel));
  return DescribeFound(*kernel, call, work);
}

// Arguments in a buffer: alternating names and values, up to an end marker.
Error ReadExtra(void** extra, LaunchCall* call) {
  bool has_size = false;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      call->buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr) {
      call->buffer_bytes = *static_cast<const std::size_t*>(extra[1]);
      has_size = true;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return call->buffer != nullptr && has_size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename Op>
Error Record(Session& session, ContextConnection& connection, const LaunchCall& call, Op op) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindLaunchable(session, connection, call, &kernel));
  return WithArguments(session, connection, call, *kernel, [&](Bytes arguments) -> Error {
    op.kernel = kernel->handle;
    op.shape = ShapeOf(call);
    op.arguments = arguments;
    CUSPAN_RETURN_IF_FAILED(connection.coherence().Expose(arguments, kernel->parameter_bytes));
    return connection.Send(op);
  });
}

}  // namespace

Error ReadArguments(void** parameters, void** extra, LaunchCall* call) {
  call->arguments = parameters;
  // An empty list is allowed beside arguments.
  if (parameters != nullptr && extra != nullptr)
    return *extra == CU_LAUNCH_PARAM_END ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  return extra != nullptr ? ReadExtra(extra, call) : Error(CUDA_SUCCESS);
}

Error ApplyAttribute(const CUlaunchAttribute& attribute, LaunchCall* call) {
  const CUlaunchAttributeValue& value = attribute.value;
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      call->cooperative = value.cooperative != 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      call->cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      call->events[0] = value.programmaticEvent.event;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      call->events[1] = value.launchCompletionEvent.event;
      return CUDA_SUCCESS;
    // Permission for an early start, not used here.
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    // Hints: they do not change a kernel's results.
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      if (value.deviceUpdatableKernelNode.deviceUpdatable == 0) return CUDA_SUCCESS;
      break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return NotSupported(Format("a launch with attribute {}", static_cast<int>(attribute.id)));
}

Error LaunchKernel(const LaunchCall& call, DefaultStream meaning) {
  return InStream(
      call.stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        if (target.connection->device() != CurrentDevice() && !IsAnywhere())
          return CUDA_ERROR_INVALID_HANDLE;
        CUSPAN_RETURN_IF_FAILED(CheckOwner(call, *target.connection));
        CUSPAN_RETURN_IF_FAILED(LaunchOn(session, target, call));
        for (const CUevent event : call.events) {
          if (event == nullptr) continue;
          CUSPAN_RETURN_IF_FAILED(session.events().Record(NumberOf(event), target));
        }
        return WaitIfBlocking(session, target);
      },
      [&](Session& session, const StreamTarget& target, Work* work) -> Described {
        if (call.events[0] != nullptr || call.events[1] != nullptr)
          return OrEndsCapture(NotSupported("the capture of a launch with an event"));
        if (const Error result = CheckOwner(call, *target.connection); result.failed())
          return result;
        // A kernel failing to load does not end the capture.
        LoadedKernel* kernel = nullptr;
        const Error result = FindKernel(*target.connection, *call.function, &kernel);
        if (result.failed()) return result;
        return OrEndsCapture(DescribeLaunch(session, call, target, work));
      });
}

LaunchCall LaunchOf(const KernelWork& work, std::vector<void*>* arguments) {
  arguments->clear();
  for (const auto& argument : work.arguments)
    arguments->push_back(const_cast<std::byte*>(argument.data()));
  LaunchCall call({work.grid, work.block, work.dynamic_shared}, nullptr);
  call.function = work.function.get();
  call.arguments = arguments->data();
  call.cooperative = work.cooperative;
  call.cluster = work.cluster;
  return call;
}

GridShape ShapeOf(const LaunchCall& call) {
  return {call.shape.grid, call.shape.block, call.cluster,
          static_cast<std::uint32_t>(call.shape.dynamic_shared), call.cooperative};
}

Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindLaunchable(session, *target.connection, call, &kernel));
  return PostLaunch(session, call, *kernel, target);
}

Error RecordLaunch(Session& session, ContextConnection& connection, const LaunchCall& call,
                   GraphKernel op) {
  return Record(session, connection, call, op);
}
Error RecordLaunch(Session& session, ContextConnection& connection, const LaunchCall& call,
                   GraphChangeKernel op) {
  return Record(session, connection, call, op);
}

Error DescribeKernel(const DeviceDescription& device, ContextConnection& connection,
                     const LaunchCall& call, Work* work) {
  LoadedKernel* kernel = nullptr;
  CUSPAN_RETURN_IF_FAILED(FindKernel(connection, *call.function, &kernel));
  const Error shape = CheckLaunch(device, *kernel, call.shape);
  if (shape.runtime() == cudaErrorInvalidConfiguration) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(shape);
  return DescribeFound(*kernel, call, work);
}

}  // namespace cuspan
