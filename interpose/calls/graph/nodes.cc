#include "interpose/calls/graph/nodes.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "interpose/calls/graph/memory_nodes.h"

namespace cuspan {

Error AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              Work work) {
  return AddNode(node, graph, dependencies, count, [&](const NewNode&, Work* out) -> Error {
    *out = std::move(work);
    return CUDA_SUCCESS;
  });
}

Error AddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              const WorkOfGraph& make_work) {
  if (node == nullptr || (dependencies == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  return WithGraph(graph, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    std::vector<GraphNode*> before;
    for (std::size_t i = 0; i < count; ++i) {
      const NodeInGraph place = graphs.Find(dependencies[i]);
      if (place.node == nullptr || place.graph != found ||
          std::find(before.begin(), before.end(), place.node) != before.end()) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      before.push_back(place.node);
    }
    Work work;
    CUSPAN_RETURN_IF_FAILED(make_work({graphs, found, before}, &work));
    GraphNode* const made = found->Add(std::move(work), std::move(before), CurrentDevice());
    graphs.Name(found, made);
    *node = HandleOf(*made);
    return CUDA_SUCCESS;
  });
}

Error DescribeCopy(const BoxRequest& box, Work* work) {
  return WithSession([&](Session& session) -> Error {
    BoxCopy described;
    CUSPAN_RETURN_IF_FAILED(DescribeBox(session, box, true, &described));
    *work = CopyWork{box};
    return CUDA_SUCCESS;
  });
}

Error DescribeRun(void* destination, const void* source, std::size_t bytes, CopySides sides,
                  Work* work) {
  return WithSession([&](Session& session) -> Error {
    if (bytes == 0 || session.addresses().RunsOver(destination, bytes) ||
        session.addresses().RunsOver(source, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    return DescribeCopy(BoxOfRun(destination, source, bytes, sides), work);
  });
}

Error DescribeSet(const CUDA_MEMSET_NODE_PARAMS& parameters, Work* work) {
  if (parameters.dst == 0 || parameters.width == 0) return CUDA_ERROR_INVALID_VALUE;
  const unsigned bytes = parameters.elementSize;
  if (bytes != 1 && bytes != 2 && bytes != 4) return CUDA_ERROR_INVALID_VALUE;
  if (parameters.dst % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (parameters.height > 1 && parameters.pitch / bytes < parameters.width)
    return CUDA_ERROR_INVALID_VALUE;
  *work = SetWork{parameters};
  return CUDA_SUCCESS;
}

Error DescribeHost(const HostFunction& call, Work* work) {
  if (call.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *work = HostWork{call};
  return CUDA_SUCCESS;
}

Error DescribeChild(CUgraph graph, Work* work) {
  return WithGraph(graph, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    return found->child ? Error(CUDA_ERROR_NOT_SUPPORTED) : CloneAsChild(graphs, *found, work);
  });
}

Error CloneAsChild(Graphs& graphs, const Graph& graph, Work* work) {
  if (graph.on_device != nullptr || HasMemoryNodes(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Graph> clone = graphs.Clone(graph);
  clone->child = true;
  *work = ChildWork{std::move(clone)};
  return CUDA_SUCCESS;
}

namespace {

// True if `graph` is `inside` or contains it.
bool Contains(const Graph& graph, const Graph& inside) {
  return &graph == &inside ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
           const auto* const child = std::get_if<ChildWork>(&node->work);
           return child != nullptr && Contains(*child->graph, inside);
         });
}

}  // namespace

Error AddChildNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                   std::size_t count, CUgraph child, int ownership) {
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) {
    Work work;
    CUSPAN_RETURN_IF_FAILED(DescribeChild(child, &work));
    return AddNode(node, graph, dependencies, count, std::move(work));
  }
  if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) return CUDA_ERROR_INVALID_VALUE;
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) -> Error {
    std::shared_ptr<Graph> moved = place.graphs.Find(child);
    if (moved == nullptr || Contains(*moved, *place.graph)) return CUDA_ERROR_INVALID_VALUE;
    if (moved->child || moved->on_device != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    moved->child = true;
    *work = ChildWork{std::move(moved)};
    return CUDA_SUCCESS;
  });
}

Error ReplaceWork(GraphNode& node, Work work) {
  if (node.work.index() != work.index()) return CUDA_ERROR_INVALID_VALUE;
  // Attributes are set separately.
  if (auto* const kernel = std::get_if<KernelWork>(&work))
    kernel->CopyAttributes(std::get<KernelWork>(node.work));
  node.work = std::move(work);
  return CUDA_SUCCESS;
}

void* GraphNode::Expose(std::size_t index, std::span<const std::byte> bytes) {
  std::unique_ptr<std::byte[]>& place = exposed_[{index, bytes.size()}];
  if (place == nullptr) place = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), place.get());
  return place.get();
}

void** GraphNode::ExposeArguments(const KernelWork& kernel) {
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i)
    pointers.push_back(Expose(i, kernel.arguments[i]));
  // Index after those of the arguments.
  return static_cast<void**>(
      Expose(kernel.arguments.size(), std::as_bytes(std::span<void* const>(pointers))));
}

Error SetNode(CUgraphNode node, Work work) {
  return WithNode(node, [&](Graphs&, const NodeInGraph& place) {
    return ReplaceWork(*place.node, std::move(work));
  });
}

}  // namespace cuspan
