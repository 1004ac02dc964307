// Structure of graphs: creating, copying and destroying graphs, nodes and edges. Edges carry no
// data: each is a full dependency.
//
// Lists are returned CUDA's way. Without an array, *count becomes the number of entries. If there
// is an array, *count is its size, and becomes the number of entries written; the rest of the array
// is cleared. CUDA_ERROR_INVALID_VALUE for an array of size 0, and for edge data without nodes.
#pragma once

#include <algorithm>

#include "interpose/calls/graph/nodes.h"

namespace cuspan {

Error CreateGraph(CUgraph* graph, unsigned flags);
Error DestroyGraph(CUgraph graph);
Error CloneGraph(CUgraph* clone, CUgraph original);
Error FindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone);

Error DestroyNode(CUgraphNode node);
Error GetNodeType(CUgraphNode node, CUgraphNodeType* type);
// All nodes of the graph, or those without dependencies.
Error GetNodes(CUgraph graph, bool roots, CUgraphNode* nodes, std::size_t* count);
Error GetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count);
Error GetDependencies(CUgraphNode node, CUgraphNode* nodes, std::size_t* count);
Error GetDependents(CUgraphNode node, CUgraphNode* nodes, std::size_t* count);
// Calls give() → Error to write a list of `nodes` with *count entries. Clears the data of the same
// number of edges, of either API's type.
template <typename Edge, typename Give>
Error WithEdgeData(Edge* edges, const CUgraphNode* nodes, const std::size_t* count, Give&& give) {
  if (edges != nullptr && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t room = edges != nullptr && count != nullptr ? *count : 0;
  CUSPAN_RETURN_IF_FAILED(give());
  if (edges != nullptr) std::fill_n(edges, std::min(room, *count), Edge{});
  return CUDA_SUCCESS;
}
// True if all edges, of either API's type, are of kinds known to CUDA. Null means no edges.
template <typename Edge>
bool AreEdges(const Edge* edges, std::size_t count) {
  return edges == nullptr || std::all_of(edges, edges + count, [](const Edge& edge) {
           return edge.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && AreClear(edge.reserved);
         });
}
Error AddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                      std::size_t count);
Error RemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                         std::size_t count);

}  // namespace cuspan
