#include "interpose/calls/graph/structure.h"

#include <algorithm>

#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/calls/graph/nodes.h"

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

// Returns a list as described in structure.h. Refuses an array of size 0.
Error GiveNodes(const std::vector<const GraphNode*>& nodes, CUgraphNode* out, std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  if (*count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < *count; ++i)
    out[i] = i < nodes.size() ? HandleOf(*nodes[i]) : nullptr;
  *count = std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

std::vector<const GraphNode*> NodesOf(const Graph& graph, bool roots) {
  std::vector<const GraphNode*> nodes;
  for (const auto& node : graph.nodes)
    if (!roots || node->dependencies.empty()) nodes.push_back(node.get());
  return nodes;
}

std::vector<const GraphNode*> DependentsOf(const NodeInGraph& place) {
  std::vector<const GraphNode*> nodes;
  for (const Edge& edge : EdgesOf(*place.graph))
    if (edge.first == place.node) nodes.push_back(edge.second);
  return nodes;
}

Error GiveEdges(const Graph& graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<Edge> edges = EdgesOf(graph);
  if (from == nullptr) {
    *count = edges.size();
    return CUDA_SUCCESS;
  }
  if (*count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < *count; ++i) {
    from[i] = i < edges.size() ? HandleOf(*edges[i].first) : nullptr;
    to[i] = i < edges.size() ? HandleOf(*edges[i].second) : nullptr;
  }
  *count = std::min(*count, edges.size());
  return CUDA_SUCCESS;
}

// Calls use(from, to) → Error for each pair, until one is not in the graph.
template <typename Use>
Error ForEachEdge(Graphs& graphs, Graph& graph, const CUgraphNode* from, const CUgraphNode* to,
                  std::size_t count, Use&& use) {
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeInGraph first = graphs.Find(from[i]);
    const NodeInGraph second = graphs.Find(to[i]);
    if (first.node == nullptr || second.node == nullptr || first.graph.get() != &graph ||
        second.graph.get() != &graph || first.node == second.node) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    CUSPAN_RETURN_IF_FAILED(use(first.node, second.node));
  }
  return CUDA_SUCCESS;
}

Error AddEdge(GraphNode* from, GraphNode* to) {
  auto& list = to->dependencies;
  if (std::find(list.begin(), list.end(), from) != list.end()) return CUDA_ERROR_INVALID_VALUE;
  list.push_back(from);
  return CUDA_SUCCESS;
}

Error RemoveEdge(GraphNode* from, GraphNode* to) {
  return std::erase(to->dependencies, from) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

Error FindCopy(const GraphNode& original, const Graph& clone, CUgraphNode* node) {
  for (const auto& copy : clone.nodes) {
    if (copy->origin != original.handle) continue;
    *node = HandleOf(*copy);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

Error CreateGraph(CUgraph* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return WithGraphs([&](Graphs& graphs) -> Error {
    *graph = HandleOf(*graphs.Create());
    return CUDA_SUCCESS;
  });
}

Error DestroyGraph(CUgraph graph) {
  return WithGraph(graph, [](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    if (found->child) return CUDA_ERROR_INVALID_VALUE;
    graphs.Destroy(found->handle);
    return CUDA_SUCCESS;
  });
}

Error CloneGraph(CUgraph* clone, CUgraph original) {
  if (clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithGraph(original, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    // Required by CUDA.
    if (found->on_device != nullptr || HasMemoryNodes(*found)) return CUDA_ERROR_NOT_SUPPORTED;
    *clone = HandleOf(*graphs.Clone(*found));
    return CUDA_SUCCESS;
  });
}

Error FindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithGraph(clone, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    const NodeInGraph place = graphs.Find(original);
    if (place.node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return FindCopy(*place.node, *found, node);
  });
}

Error DestroyNode(CUgraphNode node) {
  return WithNode(node, [](Graphs& graphs, const NodeInGraph& place) -> Error {
    if (HasMemoryNodes(*place.graph)) return CUDA_ERROR_NOT_SUPPORTED;
    graphs.DestroyNode(place);
    return CUDA_SUCCESS;
  });
}

Error GetNodeType(CUgraphNode node, CUgraphNodeType* type) {
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) -> Error {
    *type = TypeOf(place.node->work);
    return CUDA_SUCCESS;
  });
}

Error GetNodes(CUgraph graph, bool roots, CUgraphNode* nodes, std::size_t* count) {
  return WithGraph(graph, [&](Graphs&, const std::shared_ptr<Graph>& found) {
    return GiveNodes(NodesOf(*found, roots), nodes, count);
  });
}

Error GetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return WithGraph(graph, [&](Graphs&, const std::shared_ptr<Graph>& found) {
    return GiveEdges(*found, from, to, count);
  });
}

Error GetDependencies(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) {
    const auto& list = place.node->dependencies;
    return GiveNodes({list.begin(), list.end()}, nodes, count);
  });
}

Error GetDependents(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) {
    return GiveNodes(DependentsOf(place), nodes, count);
  });
}

Error AddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                      std::size_t count) {
  return WithGraph(graph, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) {
    return ForEachEdge(graphs, *found, from, to, count, AddEdge);
  });
}

Error RemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                         std::size_t count) {
  return WithGraph(graph, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    if (count != 0 && HasMemoryNodes(*found)) return CUDA_ERROR_NOT_SUPPORTED;
    return ForEachEdge(graphs, *found, from, to, count, RemoveEdge);
  });
}

}  // namespace cuspan
