// One kernel launch, as described by all entry points making one.
#pragma once

#include <array>

#include "interpose/calls/graph/work.h"
#include "interpose/calls/kernel.h"
#include "interpose/calls/launch_limits.h"

namespace cuspan {

struct LaunchCall {
  // Not an aggregate: initializing one clears all of it first, by a slow instruction in each
  // launch.
  LaunchCall() : LaunchCall(LaunchShape{}, nullptr) {}
  LaunchCall(const LaunchShape& shape, CUstream stream) : shape(shape), stream(stream) {}

  const FunctionRecord* function = nullptr;
  LaunchShape shape;
  void** arguments = nullptr;  // A pointer to each; null: none, or `buffer`.
  CUstream stream;             // Handle given by the program.
  bool cooperative = false;
  Dim3 cluster{};  // Blocks; one block: the kernel's own size.
  // Recorded after the launch; null: none. (CUDA may let them complete earlier, without guarantee.)
  std::array<CUevent, 2> events{};
  // All arguments, at the offsets in LoadedKernel::parameter_offsets.
  const void* buffer = nullptr;
  std::size_t buffer_bytes = 0;
};

// Launch of a kernel node, in no stream; *arguments must live as long.
LaunchCall LaunchOf(const KernelWork& work, std::vector<void*>* arguments);

inline bool HasClusters(const LaunchCall& call) {
  return call.cluster.x != 1 || call.cluster.y != 1 || call.cluster.z != 1;
}

// Reads the arguments in either of CUDA's forms: a pointer to each, or `extra`, a buffer with all
// of them. CUDA_ERROR_INVALID_VALUE for both at once, and if `extra` names no buffer or has other
// entries.
Error ReadArguments(void** parameters, void** extra, LaunchCall* call);

// Applies an attribute to `call`. Unsupported ones are logged and refused.
Error ApplyAttribute(const CUlaunchAttribute& attribute, LaunchCall* call);

// Launches in the stream, or adds a node to the graph being captured there.
Error LaunchKernel(const LaunchCall& call, DefaultStream meaning);

// Waits for the stream if CUDA_LAUNCH_BLOCKING is set. To be called after kernels and graphs.
inline Error WaitIfBlocking(Session& session, const StreamTarget& target) {
  if (!target.connection->launches_block()) [[likely]]
    return CUDA_SUCCESS;
  return session.streams().Synchronize(target);
}

// Checks the launch against the limits of kernel and device, and posts it.
Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call);

// Same for a node of a graph on the device, named by `op`.
Error RecordLaunch(Session& session, ContextConnection& connection, const LaunchCall& call,
                   GraphKernel op);
Error RecordLaunch(Session& session, ContextConnection& connection, const LaunchCall& call,
                   GraphChangeKernel op);

// Shape in the form sent to the device.
GridShape ShapeOf(const LaunchCall& call);

// Describes the launch as a node of a graph, with copies of the current arguments. Checks all
// except clusters and the residency of cooperative launches. CUDA_ERROR_INVALID_VALUE if an
// argument is missing.
Error DescribeKernel(const DeviceDescription& device, ContextConnection& connection,
                     const LaunchCall& call, Work* work);

}  // namespace cuspan
