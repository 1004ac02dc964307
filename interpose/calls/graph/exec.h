// What a program makes of its graphs to launch them: instantiation, launches, updates.
#pragma once

#include <utility>

#include "interpose/calls/graph/nodes.h"

namespace cuspan {

// `flags` as in CUgraphInstantiate_flags. *reason: CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE for a
// graph with a cycle, CUDA_GRAPH_INSTANTIATE_ERROR for other failures.
Error InstantiateGraph(CUgraphExec* exec, CUgraph graph, unsigned long long flags,
                       CUgraphInstantiateResult* reason);
Error InstantiateGraph(CUgraphExec* exec, CUgraph graph, unsigned long long flags);

Error DestroyExec(CUgraphExec exec);

Error LaunchGraph(CUgraphExec handle, CUstream stream, DefaultStream meaning);
// The device gets what it can do by itself now, and not at the second launch.
Error UploadGraph(CUgraphExec handle, CUstream stream, DefaultStream meaning);

// Takes the work of `graph`, whose nodes and edges must be like those that the exec was made of.
struct UpdateReport {
  CUgraphExecUpdateResult result;
  CUgraphNode node;  // That is not alike; null where none is named.
};
Error UpdateExec(CUgraphExec exec, CUgraph graph, UpdateReport* report);

// use(GraphExec&) → Error, with the graphs in peace.
template <typename Use>
Error WithExec(CUgraphExec exec, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<GraphExec> found = Graphs::Get().Find(exec);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return use(*found);
}

// --- About the node in what was instantiated that stands for this one.

// Puts other work of the same kind into it.
Error SetExecNode(CUgraphExec exec, CUgraphNode node, Work work);
// The graph inside must be like the one that was there.
Error SetExecChild(CUgraphExec exec, CUgraphNode node, CUgraph child);
// Only what does something on a device can be left out.
Error EnableNode(CUgraphExec exec, CUgraphNode node, bool enabled);
Error IsNodeEnabled(CUgraphExec exec, CUgraphNode node, bool* enabled);

// --- What becomes of a node's new work. describe(Work*) → Error makes it.

template <typename Describe>
Error AddDescribed(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                   std::size_t count, Describe&& describe) {
  Work work;
  CUSPAN_RETURN_IF_FAILED(describe(&work));
  return AddNode(node, graph, dependencies, count, std::move(work));
}
template <typename Describe>
Error SetDescribed(CUgraphNode node, Describe&& describe) {
  Work work;
  CUSPAN_RETURN_IF_FAILED(describe(&work));
  return SetNode(node, std::move(work));
}
template <typename Describe>
Error SetDescribed(CUgraphExec exec, CUgraphNode node, Describe&& describe) {
  Work work;
  CUSPAN_RETURN_IF_FAILED(describe(&work));
  return SetExecNode(exec, node, std::move(work));
}

}  // namespace cuspan
