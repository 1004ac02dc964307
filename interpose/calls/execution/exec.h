// Executable graphs: instantiation, launches, updates.
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
// Records the device's part of the graph now, not at the second launch.
Error UploadGraph(CUgraphExec handle, CUstream stream, DefaultStream meaning);

// Result of UpdateExec: takes the work of `graph`, if its nodes and edges match those of the exec.
struct UpdateReport {
  CUgraphExecUpdateResult result;
  CUgraphNode node;  // First mismatch; may be null.
};
Error UpdateExec(CUgraphExec exec, CUgraph graph, UpdateReport* report);

// --- Nodes of an exec, named by the nodes they were cloned from

// Replaces its work by other work of the same kind.
Error SetExecNode(CUgraphExec exec, CUgraphNode node, Work work);
// The new child graph must match the current one.
Error SetExecChild(CUgraphExec exec, CUgraphNode node, CUgraph child);
// Only kernel, memcpy and memset nodes can be disabled.
Error EnableNode(CUgraphExec exec, CUgraphNode node, bool enabled);
Error IsNodeEnabled(CUgraphExec exec, CUgraphNode node, bool* enabled);

// --- Uses of new work. describe(Work*) → Error makes it.

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
