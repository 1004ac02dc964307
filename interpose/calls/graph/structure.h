// Graphs as structures: making, copying and destroying them, and their nodes and edges. Edges carry
// no data of their own: each is a full dependency.
//
// Lists are given CUDA's way. Without an array, *count is how many entries there are. With one, it
// is the array's size and becomes the number of entries given; the rest of the array is cleared. An
// array of size 0 is CUDA_ERROR_INVALID_VALUE, as is one of edge data without one of nodes.
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
// All of the graph, or those that depend on no other.
Error GetNodes(CUgraph graph, bool roots, CUgraphNode* nodes, std::size_t* count);
Error GetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count);
Error GetDependencies(CUgraphNode node, CUgraphNode* nodes, std::size_t* count);
Error GetDependents(CUgraphNode node, CUgraphNode* nodes, std::size_t* count);
// give() → Error gives a list of `nodes` with *count entries. The data of as many edges, of either
// face's type, is cleared.
template <typename Edge, typename Give>
Error WithEdgeData(Edge* edges, const CUgraphNode* nodes, const std::size_t* count, Give&& give) {
  if (edges != nullptr && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t room = edges != nullptr && count != nullptr ? *count : 0;
  CUSPAN_RETURN_IF_FAILED(give());
  if (edges != nullptr) std::fill_n(edges, std::min(room, *count), Edge{});
  return CUDA_SUCCESS;
}
// Whether the edges, as either face describes them, are of kinds that CUDA has. None are.
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
