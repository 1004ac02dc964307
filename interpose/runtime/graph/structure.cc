// Structure of graphs: creation, copies and destruction, nodes and edges.
#include "interpose/calls/graph/structure.h"

#include <utility>

#include "interpose/runtime/caller.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

// Before CUDA 13, there was no parameter `edges`, and `count` came in its position.
void MoveUp(cudaGraphEdgeData** edges, std::size_t** count) {
  *count = reinterpret_cast<std::size_t*>(*edges);
  *edges = nullptr;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return Answer([&] { return CreateGraph(graph, flags); });
}

CUSPAN_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Answer([&] { return DestroyGraph(graph); });
}

CUSPAN_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return Answer([&] { return CloneGraph(clone, original); });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original,
                                                   cudaGraph_t clone) {
  return Answer([&] { return FindInClone(node, original, clone); });
}

CUSPAN_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return Answer([&] { return DestroyNode(node); });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return Answer([&]() -> Error {
    if (type == nullptr) return cudaErrorInvalidValue;
    CUgraphNodeType found{};
    CUSPAN_RETURN_IF_FAILED(GetNodeType(node, &found));
    *type = static_cast<cudaGraphNodeType>(found);
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                            std::size_t* count) {
  return Answer([&] { return GetNodes(graph, false, nodes, count); });
}

CUSPAN_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                                std::size_t* count) {
  return Answer([&] { return GetNodes(graph, true, nodes, count); });
}

CUSPAN_EXPORT_SINCE_13(cudaGraphGetEdges,
                       (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                        cudaGraphEdgeData* edges, std::size_t* count),
                       MoveUp(&edges, &count), Answer([&] {
                         return WithEdgeData(edges, from, count,
                                             [&] { return GetEdges(graph, from, to, count); });
                       }))

CUSPAN_EXPORT_SINCE_13(cudaGraphNodeGetDependencies,
                       (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                        std::size_t* count),
                       MoveUp(&edges, &count), Answer([&] {
                         return WithEdgeData(edges, nodes, count,
                                             [&] { return GetDependencies(node, nodes, count); });
                       }))

CUSPAN_EXPORT_SINCE_13(cudaGraphNodeGetDependentNodes,
                       (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                        std::size_t* count),
                       MoveUp(&edges, &count), Answer([&] {
                         return WithEdgeData(edges, nodes, count,
                                             [&] { return GetDependents(node, nodes, count); });
                       }))

CUSPAN_EXPORT_SINCE_13(cudaGraphAddDependencies,
                       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                        const cudaGraphEdgeData* edges, std::size_t count),
                       count = NumberOf(std::exchange(edges, nullptr)), Answer([&]() -> Error {
                         if (!AreEdges(edges, count)) return cudaErrorInvalidValue;
                         return AddDependencies(graph, from, to, count);
                       }))

CUSPAN_EXPORT_SINCE_13(cudaGraphRemoveDependencies,
                       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                        [[maybe_unused]] const cudaGraphEdgeData* edges, std::size_t count),
                       count = NumberOf(edges),
                       Answer([&] { return RemoveDependencies(graph, from, to, count); }))
