// Numbers that tell graphs, executable ones and nodes apart, as DrawGraph writes them.
#pragma once

#include "interpose/calls/graph/graph.h"

namespace cuspan {

// Of a Graph, a GraphExec or a GraphNode. Handles are counted: their ends differ.
template <typename Object>
unsigned IdOf(const Object& object) {
  return static_cast<unsigned>(object.handle);
}

// CUDA_ERROR_INVALID_VALUE for what is none, and for null pointers.
Error GetGraphId(CUgraph graph, unsigned* id);
Error GetExecId(CUgraphExec exec, unsigned* id);
Error GetNodeId(CUgraphNode node, unsigned* id);
Error GetGraphOfNode(CUgraphNode node, CUgraph* graph);

}  // namespace cuspan
