// One kernel launch, as every entry point that makes one describes it.
#pragma once

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
};

// Checks the launch against the kernel and the device of `target`, and posts it.
Error LaunchOn(Session& session, const StreamTarget& target, const LaunchCall& call);

// The same as a node of a graph, with the arguments as they are now. cudaErrorInvalidValue when
// one is missing.
Error DescribeKernel(const LoadedKernel& kernel, const LaunchCall& call, Work* work);

}  // namespace cuspan
