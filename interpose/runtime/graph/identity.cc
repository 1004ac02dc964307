// Ids of graphs and nodes. Added by CUDA releases 13.1 and later, so not declared by the header of
// 13.0.
#include "interpose/calls/graph/identity.h"

#include "interpose/runtime/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphGetId(cudaGraph_t graph, unsigned* id) {
  return Answer([&] { return GetGraphId(graph, id); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecGetId(cudaGraphExec_t exec, unsigned* id) {
  return Answer([&] { return GetExecId(exec, id); });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetLocalId(cudaGraphNode_t node, unsigned* id) {
  return Answer([&] { return GetNodeId(node, id); });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetToolsId(cudaGraphNode_t node, unsigned long long* id) {
  return Answer([&]() -> Error {
    if (id == nullptr) return cudaErrorInvalidValue;
    unsigned number = 0;
    CUSPAN_RETURN_IF_FAILED(GetNodeId(node, &number));
    *id = number;
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetContainingGraph(cudaGraphNode_t node,
                                                          cudaGraph_t* graph) {
  return Answer([&] { return GetGraphOfNode(node, graph); });
}
