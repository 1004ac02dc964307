// Conditions of graphs, and the conditional nodes that follow them.
#include <algorithm>

#include "interpose/runtime/graph_device.h"
#include "interpose/runtime/graph_use.h"

namespace cuspan {
namespace {

Error CreateCondition(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned value,
                      unsigned flags) {
  if (handle == nullptr || (flags & ~unsigned{cudaGraphCondAssignDefault}) != 0)
    return cudaErrorInvalidValue;
  return WithSession([&](Session& session) {
    return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
      if (found->on_device == nullptr)
        CUSPAN_RETURN_IF_FAILED(DeviceGraph::Create(session, *found, &found->on_device));
      std::uint64_t number = 0;
      CUSPAN_RETURN_IF_FAILED(found->on_device->AddCondition(session, value, flags, &number));
      *handle = number;
      return cudaSuccess;
    });
  });
}

bool Follows(const Graph& graph, std::uint64_t condition) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    const auto* const work = std::get_if<ConditionWork>(&node->work);
    return work != nullptr &&
           (work->condition == condition ||
            std::any_of(work->bodies.begin(), work->bodies.end(),
                        [&](const auto& body) { return Follows(*body, condition); }));
  });
}

// A condition of the graph that no node follows yet.
bool IsFree(const Graph& graph, std::uint64_t condition) {
  if (graph.on_device == nullptr) return false;
  const auto& conditions = graph.on_device->conditions();
  const bool known = std::any_of(conditions.begin(), conditions.end(),
                                 [&](const auto& one) { return one.number == condition; });
  const std::shared_ptr<Graph> whole =
      Graphs::Get().Find(HandleOf<cudaGraph_t>(graph.on_device->whole()));
  return known && whole != nullptr && !Follows(*whole, condition);
}

bool HasSize(const cudaConditionalNodeParams& parameters) {
  switch (parameters.type) {
    case cudaGraphCondTypeIf:
      return parameters.size == 1 || parameters.size == 2;
    case cudaGraphCondTypeWhile:
      return parameters.size == 1;
    case cudaGraphCondTypeSwitch:
      return parameters.size >= 1;
    default:
      return false;
  }
}

// More than any program has; the proxy takes no more.
constexpr unsigned kMostBodies = 4096;

}  // namespace

Error AddConditionalNode(cudaGraphNode_t* node, cudaGraph_t graph,
                         const cudaGraphNode_t* dependencies, std::size_t count,
                         cudaConditionalNodeParams* parameters) {
  if (!HasSize(*parameters)) return cudaErrorInvalidValue;
  if (parameters->size > kMostBodies)
    return NotSupported("a conditional node with more than 4,096 bodies");
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) -> Error {
    if (!IsFree(*place.graph, parameters->handle)) return cudaErrorInvalidValue;
    ConditionWork condition{parameters->handle, parameters->type, {}, {}};
    condition.handles = std::make_shared<std::vector<cudaGraph_t>>();
    for (unsigned i = 0; i < parameters->size; ++i) {
      const auto& body = condition.bodies.emplace_back(Graphs::Get().Create());
      body->child = true;
      body->on_device = place.graph->on_device;
      condition.handles->push_back(HandleOf(*body));
    }
    parameters->phGraph_out = condition.handles->data();
    *work = std::move(condition);
    return cudaSuccess;
  });
}

Error CloneAsChild(const Graph& graph, Work* work) {
  if (graph.on_device != nullptr) return cudaErrorNotSupported;
  std::shared_ptr<Graph> clone = Graphs::Get().Clone(graph);
  clone->child = true;
  *work = ChildWork{std::move(clone)};
  return cudaSuccess;
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                                           cudaGraph_t graph, unsigned value,
                                                           unsigned flags) {
  return Answer([&] { return CreateCondition(handle, graph, value, flags); });
}
