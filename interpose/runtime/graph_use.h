// How the entry points about graphs reach what a handle stands for.
#pragma once

#include <functional>

#include "interpose/runtime/graph.h"

namespace cuspan {

// use(const std::shared_ptr<Graph>&) → Error, with the graphs in peace.
template <typename Use>
Error WithGraph(cudaGraph_t graph, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<Graph> found = Graphs::Get().Find(graph);
  if (found == nullptr) return cudaErrorInvalidValue;
  return use(found);
}

// use(const Graphs::Place&) → Error, the same.
template <typename Use>
Error WithNode(cudaGraphNode_t node, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::lock_guard lock(Graphs::Get().mutex);
  const Graphs::Place place = Graphs::Get().Find(node);
  if (place.node == nullptr) return cudaErrorInvalidValue;
  return use(place);
}

// Adds a node that depends on others of the graph. make_work(NewNode, Work*) → Error says what it
// does, with the graphs in peace.
using WorkOfGraph = std::function<Error(const NewNode&, Work*)>;
Error AddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              std::size_t count, const WorkOfGraph& make_work);
Error AddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              std::size_t count, Work work);
// The same for a conditional node; its bodies are given to the program (graph_condition.cc).
Error AddConditionalNode(cudaGraphNode_t* node, cudaGraph_t graph,
                         const cudaGraphNode_t* dependencies, std::size_t count,
                         cudaConditionalNodeParams* parameters);
// A clone of the graph as a node of another, with the graphs in peace. cudaErrorNotSupported, as
// CUDA has it, for one with conditions.
Error CloneAsChild(const Graph& graph, Work* work);

// --- From the parameters of the C API to work (graph_nodes.cc). They check what can be checked
// without the node's place; the current device is the one that kernels are for.
Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work);
Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work);
Error DescribeWork(const cudaMemsetParams* parameters, Work* work);
Error DescribeWork(const cudaHostNodeParams* parameters, Work* work);
// A copy of one run of bytes. A node of no bytes, and one that runs over a device's allocation, are
// refused when they are described, as by the driver (measured, 580).
Error DescribeRun(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  Work* work);
// All kinds that cudaGraphAddNode knows.
Error DescribeWork(cudaGraphNodeParams* parameters, Work* work);
// Puts other work of the same kind into a node; cudaErrorInvalidValue for another kind.
Error ReplaceWork(GraphNode& node, Work work);
Error SetNode(cudaGraphNode_t node, Work work);
// The same in what was instantiated: into the node that stands for this one (graph_exec.cc).
Error SetExecNode(cudaGraphExec_t exec, cudaGraphNode_t node, Work work);

}  // namespace cuspan
