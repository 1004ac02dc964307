// How the entry points about graphs reach what a handle stands for.
#pragma once

#include "interpose/runtime/graph.h"

namespace cuspan {

// use(const std::shared_ptr<Graph>&) → Error, with the graphs in peace.
template <typename Use>
Error WithGraph(cudaGraph_t graph, Use&& use) {
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
  if (found == nullptr) return cudaErrorInvalidValue;
  return use(found);
}

// use(const Graphs::Place&) → Error, the same.
template <typename Use>
Error WithNode(cudaGraphNode_t node, Use&& use) {
  std::lock_guard lock(Graphs::Get().mutex);
  const Graphs::Place place = Graphs::Get().Find(node);
  if (place.node == nullptr) return cudaErrorInvalidValue;
  return use(place);
}

// --- From the parameters of the C API to work (graph_nodes.cc). They check what can be checked
// without the node's place; the current device is the one that kernels are for.
Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work);
Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work);
Error DescribeWork(const cudaMemsetParams* parameters, Work* work);
Error DescribeWork(const cudaHostNodeParams* parameters, Work* work);
// All kinds that cudaGraphAddNode knows.
Error DescribeWork(cudaGraphNodeParams* parameters, Work* work);
// Puts other work of the same kind into a node; cudaErrorInvalidValue for another kind.
Error ReplaceWork(GraphNode& node, Work work);

}  // namespace cuspan
