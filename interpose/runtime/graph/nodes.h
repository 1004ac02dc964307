// Conversion of the runtime's node parameters to a node's work. Checks everything not depending on
// the node's position in the graph. Kernels are looked up on the current device.
#pragma once

#include <utility>

#include "interpose/calls/execution/exec.h"
#include "interpose/calls/graph/nodes.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work);
Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work);
Error DescribeWork(const cudaMemsetParams* parameters, Work* work);
Error DescribeWork(const cudaHostNodeParams* parameters, Work* work);
// All node types of cudaGraphAddNode.
Error DescribeWork(cudaGraphNodeParams* parameters, Work* work);
// A copy of contiguous bytes.
Error DescribeRun(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  Work* work);

}  // namespace cuspan

// Defines functions to add a node of one type to a graph, to change it there, and to change it in
// an instantiated graph. `describe` fills the Work* `work` from the parameters common to all three.
#define CUSPAN_EXPORT_NODE(add, set, set_in_exec, describe, ...)                                   \
  CUSPAN_EXPORT cudaError_t add(cudaGraphNode_t* node, cudaGraph_t graph,                          \
                                const cudaGraphNode_t* dependencies, std::size_t count,            \
                                __VA_ARGS__) {                                                     \
    return Answer([&] {                                                                            \
      return AddDescribed(node, graph, dependencies, count, [&](Work* work) { return describe; }); \
    });                                                                                            \
  }                                                                                                \
  CUSPAN_EXPORT cudaError_t set(cudaGraphNode_t node, __VA_ARGS__) {                               \
    return Answer([&] { return SetDescribed(node, [&](Work* work) { return describe; }); });       \
  }                                                                                                \
  CUSPAN_EXPORT cudaError_t set_in_exec(cudaGraphExec_t exec, cudaGraphNode_t node, __VA_ARGS__) { \
    return Answer([&] { return SetDescribed(exec, node, [&](Work* work) { return describe; }); }); \
  }
