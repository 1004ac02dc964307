// Numbers identifying graphs, executable graphs and nodes, also used by DrawGraph.
#pragma once

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// `object`: a Graph, GraphExec or GraphNode. Handles are counted: their low bits differ.
template <typename Object>
unsigned IdOf(const Object& object) {
  return static_cast<unsigned>(object.handle);
}

// CUDA_ERROR_INVALID_VALUE for unknown handles and null pointers.
Error GetGraphId(CUgraph graph, unsigned* id);
Error GetExecId(CUgraphExec exec, unsigned* id);
Error GetNodeId(CUgraphNode node, unsigned* id);
Error GetGraphOfNode(CUgraphNode node, CUgraph* graph);

}  // namespace cuspan
