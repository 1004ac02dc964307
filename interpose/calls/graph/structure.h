// Graphs as structures: making, copying and destroying them, and their nodes and edges. Edges carry
// no data of their own: each is a full dependency.
//
// Lists are given CUDA's way: without an array *count is how many there are; with one it is the
// array's size, and becomes the number of entries; what is left of the array is cleared.
#pragma once

#include "interpose/calls/graph/graph.h"

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
Error AddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                      std::size_t count);
Error RemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                         std::size_t count);

}  // namespace cuspan
