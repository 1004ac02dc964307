#include "interpose/calls/graph/identity.h"

#include "interpose/calls/graph/graph_table.h"

namespace cuspan {

Error GetGraphId(CUgraph graph, unsigned* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithGraph(graph, [&](Graphs&, const std::shared_ptr<Graph>& found) -> Error {
    *id = IdOf(*found);
    return CUDA_SUCCESS;
  });
}

Error GetExecId(CUgraphExec exec, unsigned* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithExec(exec, [&](Graphs&, const GraphExec& found) -> Error {
    *id = IdOf(found);
    return CUDA_SUCCESS;
  });
}

Error GetNodeId(CUgraphNode node, unsigned* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) -> Error {
    *id = IdOf(*place.node);
    return CUDA_SUCCESS;
  });
}

Error GetGraphOfNode(CUgraphNode node, CUgraph* graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) -> Error {
    *graph = HandleOf(*place.graph);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
