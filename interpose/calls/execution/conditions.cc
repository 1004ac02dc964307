#include "interpose/calls/execution/conditions.h"

#include <algorithm>

#include "interpose/calls/execution/device_graph.h"

namespace cuspan {
namespace {

bool Follows(const Graph& graph, std::uint64_t condition) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    const auto* const work = std::get_if<ConditionWork>(&node->work);
    return work != nullptr &&
           (work->condition == condition ||
            std::any_of(work->bodies.begin(), work->bodies.end(),
                        [&](const auto& body) { return Follows(*body, condition); }));
  });
}

// True for a condition of the graph not yet used by a node.
bool IsFree(Graphs& graphs, const Graph& graph, std::uint64_t condition) {
  if (graph.on_device == nullptr) return false;
  const auto& conditions = graph.on_device->conditions();
  const bool known = std::any_of(conditions.begin(), conditions.end(),
                                 [&](const auto& one) { return one.number == condition; });
  const std::shared_ptr<Graph> whole = graphs.Find(HandleOf<CUgraph>(graph.on_device->whole()));
  return known && whole != nullptr && !Follows(*whole, condition);
}

bool HasSize(const CUDA_CONDITIONAL_NODE_PARAMS& parameters) {
  switch (parameters.type) {
    case CU_GRAPH_COND_TYPE_IF:
      return parameters.size == 1 || parameters.size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return parameters.size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return parameters.size >= 1;
    default:
      return false;
  }
}

// Limit of the proxy, above the needs of any program.
constexpr unsigned kMaxBodies = 4096;

}  // namespace

Error CreateCondition(CUgraphConditionalHandle* handle, CUgraph graph, unsigned value,
                      unsigned flags) {
  if (handle == nullptr || (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return WithSession([&](Session& session) {
    return WithGraph(graph, [&](Graphs&, const std::shared_ptr<Graph>& found) -> Error {
      if (found->on_device == nullptr)
        CUSPAN_RETURN_IF_FAILED(DeviceGraph::Create(session, *found, &found->on_device));
      std::uint64_t number = 0;
      CUSPAN_RETURN_IF_FAILED(found->on_device->AddCondition(session, value, flags, &number));
      *handle = number;
      return CUDA_SUCCESS;
    });
  });
}

Error AddConditionalNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                         std::size_t count, CUDA_CONDITIONAL_NODE_PARAMS* parameters) {
  if (!HasSize(*parameters)) return CUDA_ERROR_INVALID_VALUE;
  if (parameters->size > kMaxBodies)
    return NotSupported("a conditional node with more than 4096 bodies");
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) -> Error {
    if (!IsFree(place.graphs, *place.graph, parameters->handle)) return CUDA_ERROR_INVALID_VALUE;
    ConditionWork condition{parameters->handle, parameters->type, {}, {}};
    condition.handles = std::make_shared<std::vector<CUgraph>>();
    for (unsigned i = 0; i < parameters->size; ++i) {
      const auto& body = condition.bodies.emplace_back(place.graphs.Create());
      body->child = true;
      body->on_device = place.graph->on_device;
      condition.handles->push_back(HandleOf(*body));
    }
    parameters->phGraph_out = condition.handles->data();
    *work = std::move(condition);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
