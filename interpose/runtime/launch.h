// One kernel launch, as every entry point that makes one describes it.
#pragma once

#include <array>

#include "interpose/runtime/entry.h"
#include "interpose/runtime/graph.h"
#include "interpose/runtime/launch_limits.h"

namespace cuspan {

struct LaunchCall {
  const void* function;
  LaunchShape shape;
  void** arguments;
  cudaStream_t stream;  // As the program gave it.
  bool cooperative = false;
  dim3 cluster = {1, 1, 1};  // In blocks; one block: what the kernel itself says.
  // Recorded behind the launch: null where there is none. (CUDA lets them be reached earlier, and
  // does not promise it.)
  std::array<cudaEvent_t, 2> events{};
};

// The launch that a configuration describes; named and refused for attributes that we do not have.
Error ReadConfig(const cudaLaunchConfig_t* config, const void* function, void** arguments,
                 LaunchCall* call);

// Checks the launch against the kernel and the device of `target`, and posts it.
Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call);

// The same into a graph of the device: `op` says where.
Error RecordLaunch(Session& session, Link& link, const LaunchCall& call, GraphKernel op);

// The shape as the device gets it.
GridShape ShapeOf(const LaunchCall& call);

// The same as a node of a graph, with the arguments as they are now. cudaErrorInvalidValue when
// one is missing.
Error DescribeKernel(const LoadedKernel& kernel, const LaunchCall& call, Work* work);

}  // namespace cuspan
