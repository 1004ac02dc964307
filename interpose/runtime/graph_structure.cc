// Graphs as structures: making, copying and destroying them, and their nodes and edges.
#include <algorithm>

#include "interpose/runtime/caller.h"
#include "interpose/runtime/graph.h"
#include "interpose/runtime/graph_use.h"

namespace cuspan {
namespace {

using Edge = std::pair<const GraphNode*, const GraphNode*>;

std::vector<Edge> EdgesOf(const Graph& graph) {
  std::vector<Edge> edges;
  for (const auto& node : graph.nodes)
    for (const GraphNode* dependency : node->dependencies)
      edges.emplace_back(dependency, node.get());
  return edges;
}

// CUDA's way to give lists: without an array *count is how many there are; with one it is
// the array's size, and becomes the number of entries; what is left of the array is cleared.
Error GiveNodes(const std::vector<const GraphNode*>& nodes, cudaGraphNode_t* out,
                std::size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  if (out == nullptr) {
    *count = nodes.size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i)
    out[i] = i < nodes.size() ? HandleOf(*nodes[i]) : nullptr;
  *count = std::min(*count, nodes.size());
  return cudaSuccess;
}

std::vector<const GraphNode*> NodesOf(const Graph& graph, bool roots) {
  std::vector<const GraphNode*> nodes;
  for (const auto& node : graph.nodes)
    if (!roots || node->dependencies.empty()) nodes.push_back(node.get());
  return nodes;
}

std::vector<const GraphNode*> DependentsOf(const Graphs::Place& place) {
  std::vector<const GraphNode*> nodes;
  for (const Edge& edge : EdgesOf(*place.graph))
    if (edge.first == place.node) nodes.push_back(edge.second);
  return nodes;
}

Error GiveEdges(const Graph& graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                std::size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return cudaErrorInvalidValue;
  const std::vector<Edge> edges = EdgesOf(graph);
  if (from == nullptr) {
    *count = edges.size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    from[i] = i < edges.size() ? HandleOf(*edges[i].first) : nullptr;
    to[i] = i < edges.size() ? HandleOf(*edges[i].second) : nullptr;
  }
  *count = std::min(*count, edges.size());
  return cudaSuccess;
}

// Before CUDA 13 there was no data of edges, and the number came in its place.
void MoveUp(cudaGraphEdgeData** edges, std::size_t** count) {
  *count = reinterpret_cast<std::size_t*>(*edges);
  *edges = nullptr;
}

// use(from, to) → Error for each pair, when all are nodes of the graph.
template <typename Use>
Error ForEachEdge(Graph& graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                  std::size_t count, Use&& use) {
  if (count != 0 && (from == nullptr || to == nullptr)) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    const Graphs::Place first = Graphs::Get().Find(from[i]);
    const Graphs::Place second = Graphs::Get().Find(to[i]);
    if (first.node == nullptr || second.node == nullptr || first.graph.get() != &graph ||
        second.graph.get() != &graph || first.node == second.node) {
      return cudaErrorInvalidValue;
    }
    CUSPAN_RETURN_IF_FAILED(use(first.node, second.node));
  }
  return cudaSuccess;
}

Error AddEdge(GraphNode* from, GraphNode* to) {
  auto& list = to->dependencies;
  if (std::find(list.begin(), list.end(), from) != list.end()) return cudaErrorInvalidValue;
  list.push_back(from);
  return cudaSuccess;
}

Error RemoveEdge(GraphNode* from, GraphNode* to) {
  return std::erase(to->dependencies, from) == 0 ? cudaErrorInvalidValue : cudaSuccess;
}

Error FindInClone(const GraphNode& original, const Graph& clone, cudaGraphNode_t* node) {
  for (const auto& copy : clone.nodes) {
    if (copy->origin != original.handle) continue;
    *node = HandleOf(*copy);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return Answer([&]() -> Error {
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    std::lock_guard lock(Graphs::Get().mutex);
    *graph = HandleOf(*Graphs::Get().Create());
    return cudaSuccess;
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Answer([&] {
    return WithGraph(graph, [](const std::shared_ptr<Graph>& found) -> Error {
      if (found->child) return cudaErrorInvalidValue;
      Graphs::Get().Destroy(found->handle);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return Answer([&]() -> Error {
    if (clone == nullptr) return cudaErrorInvalidValue;
    return WithGraph(original, [&](const std::shared_ptr<Graph>& found) -> Error {
      if (found->on_device != nullptr) return cudaErrorNotSupported;  // As CUDA has it.
      *clone = HandleOf(*Graphs::Get().Clone(*found));
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original,
                                                   cudaGraph_t clone) {
  return Answer([&]() -> Error {
    if (node == nullptr) return cudaErrorInvalidValue;
    return WithGraph(clone, [&](const std::shared_ptr<Graph>& found) -> Error {
      const Graphs::Place place = Graphs::Get().Find(original);
      if (place.node == nullptr) return cudaErrorInvalidValue;
      return FindInClone(*place.node, *found, node);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return Answer([&] {
    return WithNode(node, [](const Graphs::Place& place) -> Error {
      if (HasMemoryNodes(*place.graph)) return cudaErrorNotSupported;
      Graphs::Get().DestroyNode(place);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return Answer([&]() -> Error {
    if (type == nullptr) return cudaErrorInvalidValue;
    return WithNode(node, [&](const Graphs::Place& place) -> Error {
      *type = TypeOf(place.node->work);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                            std::size_t* count) {
  return Answer([&] {
    return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) {
      return GiveNodes(NodesOf(*found, false), nodes, count);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                                std::size_t* count) {
  return Answer([&] {
    return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) {
      return GiveNodes(NodesOf(*found, true), nodes, count);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from,
                                            cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                            std::size_t* count) {
  if (CallerIsBefore13(__builtin_return_address(0))) MoveUp(&edges, &count);
  return Answer([&] {
    return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
      const std::size_t room = edges != nullptr && count != nullptr ? *count : 0;
      CUSPAN_RETURN_IF_FAILED(GiveEdges(*found, from, to, count));
      if (edges != nullptr) std::fill_n(edges, std::min(room, *count), cudaGraphEdgeData{});
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                       cudaGraphEdgeData* edges,
                                                       std::size_t* count) {
  if (CallerIsBefore13(__builtin_return_address(0))) MoveUp(&edges, &count);
  return Answer([&] {
    return WithNode(node, [&](const Graphs::Place& place) -> Error {
      const auto& list = place.node->dependencies;
      const std::size_t room = edges != nullptr && count != nullptr ? *count : 0;
      CUSPAN_RETURN_IF_FAILED(GiveNodes({list.begin(), list.end()}, nodes, count));
      if (edges != nullptr) std::fill_n(edges, std::min(room, *count), cudaGraphEdgeData{});
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                         cudaGraphNode_t* nodes,
                                                         cudaGraphEdgeData* edges,
                                                         std::size_t* count) {
  if (CallerIsBefore13(__builtin_return_address(0))) MoveUp(&edges, &count);
  return Answer([&] {
    return WithNode(node, [&](const Graphs::Place& place) -> Error {
      const std::size_t room = edges != nullptr && count != nullptr ? *count : 0;
      CUSPAN_RETURN_IF_FAILED(GiveNodes(DependentsOf(place), nodes, count));
      if (edges != nullptr) std::fill_n(edges, std::min(room, *count), cudaGraphEdgeData{});
      return cudaSuccess;
    });
  });
}

// Edges carry no data of their own here: each is a full dependency.
CUSPAN_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to,
                                                   const cudaGraphEdgeData* edges,
                                                   std::size_t count) {
  if (CallerIsBefore13(__builtin_return_address(0))) count = NumberOf(edges);
  return Answer([&] {
    return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) {
      return ForEachEdge(*found, from, to, count, AddEdge);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                      const cudaGraphNode_t* from,
                                                      const cudaGraphNode_t* to,
                                                      const cudaGraphEdgeData* edges,
                                                      std::size_t count) {
  if (CallerIsBefore13(__builtin_return_address(0))) count = NumberOf(edges);
  return Answer([&] {
    return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
      if (count != 0 && HasMemoryNodes(*found)) return cudaErrorNotSupported;
      return ForEachEdge(*found, from, to, count, RemoveEdge);
    });
  });
}
