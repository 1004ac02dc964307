// What a node of a graph is to do, from the parameters of the runtime. They are checked as far as
// that can be done without the node's place; the current device is the one that kernels are for.
#pragma once

#include <utility>

#include "interpose/calls/graph/exec.h"
#include "interpose/calls/graph/nodes.h"
#include "interpose/runtime/entry.h"

namespace cuspan {

Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work);
Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work);
Error DescribeWork(const cudaMemsetParams* parameters, Work* work);
Error DescribeWork(const cudaHostNodeParams* parameters, Work* work);
// All kinds that cudaGraphAddNode knows.
Error DescribeWork(cudaGraphNodeParams* parameters, Work* work);
// A copy of one run of bytes.
Error DescribeRun(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  Work* work);

}  // namespace cuspan

// Defines the functions that add a node of some kind to a graph, change one there, and change one
// in what was instantiated of it. `describe` makes the Work* `work` of the parameters that the
// three share.
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
