// One kernel launch, as every entry point that makes one describes it.
#pragma once

#include <array>

#include "interpose/calls/graph/graph.h"
#include "interpose/calls/kernel.h"
#include "interpose/calls/launch_limits.h"

namespace cuspan {

struct LaunchCall {
  // Not an aggregate: all of one is cleared first, by a slow instruction, on the way of each
  // launch.
  LaunchCall() : LaunchCall(LaunchShape{}, nullptr) {}
  LaunchCall(const LaunchShape& shape, CUstream stream) : shape(shape), stream(stream) {}

  const FunctionRecord* function = nullptr;
  LaunchShape shape;
  void** arguments = nullptr;  // A pointer to each; null: none, or those in `buffer`.
  CUstream stream;             // As the program gave it.
  bool cooperative = false;
  Dim3 cluster{};  // In blocks; one block: what the kernel itself says.
  // Recorded behind the launch: null where there is none. (CUDA lets them be reached earlier, and
  // does not promise it.)
  std::array<CUevent, 2> events{};
  // All arguments, each where the kernel says that it lies (LoadedKernel::parameter_offsets).
  const void* buffer = nullptr;
  std::size_t buffer_bytes = 0;
};

// That of a node, in no stream; *arguments must live as long.
LaunchCall LaunchOf(const KernelWork& work, std::vector<void*>* arguments);

inline bool HasClusters(const LaunchCall& call) {
  return call.cluster.x != 1 || call.cluster.y != 1 || call.cluster.z != 1;
}

// The arguments, in one of the two ways in which CUDA takes them: a pointer to each, or `extra`,
// the buffer with all of them. CUDA_ERROR_INVALID_VALUE for both, and for what says nothing of a
// buffer or other things beside it.
Error TakeArguments(void** parameters, void** extra, LaunchCall* call);

// Takes what is understood of an attribute into `call`; named and refused when we do not have it.
Error TakeAttribute(const CUlaunchAttribute& attribute, LaunchCall* call);

// The launch in its stream, or in the graph that is being captured there.
Error LaunchKernel(const LaunchCall& call, DefaultStream meaning);

// Waits for the stream where CUDA_LAUNCH_BLOCKING says so. Kernels and graphs end with it.
inline Error WaitIfBlocking(Session& session, const StreamTarget& target) {
  if (!target.connection->launches_block()) [[likely]]
    return CUDA_SUCCESS;
  return session.streams().Synchronize(target);
}

// Checks the launch against the kernel and the device of `target`, and posts it.
Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call);

// The same into a graph of the device: `op` says where.
Error RecordLaunch(Session& session, ContextConnection& connection, const LaunchCall& call,
                   GraphKernel op);
Error RecordLaunch(Session& session, ContextConnection& connection, const LaunchCall& call,
                   GraphChangeKernel op);

// The shape as the device gets it.
GridShape ShapeOf(const LaunchCall& call);

// The launch as a node of a graph, with the arguments as they are now; checked but for what depends
// on clusters and on all blocks being there at once. CUDA_ERROR_INVALID_VALUE when an argument is
// missing.
Error DescribeKernel(const DeviceDescription& device, ContextConnection& connection,
                     const LaunchCall& call, Work* work);

}  // namespace cuspan
