#include "interpose/calls/execution/device_exec.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "interpose/calls/execution/device_graph.h"
#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

// Minimum nodes of a device's part: its launch costs the driver two or three kernel launches.
constexpr std::size_t kMinNodes = 3;

// Moves nodes accepted by `mine` out of *left, except nodes behind a remaining one.
template <typename Mine>
std::vector<GraphNode*> ExtractFirst(std::vector<GraphNode*>* left, Mine&& mine) {
  std::vector<GraphNode*> taken;
  std::vector<GraphNode*> rest;
  std::unordered_set<const GraphNode*> staying;
  for (GraphNode* const node : *left) {
    const bool free = std::none_of(node->dependencies.begin(), node->dependencies.end(),
                                   [&](const GraphNode* one) { return staying.contains(one); });
    if (free && mine(*node)) {
      taken.push_back(node);
    } else {
      staying.insert(node);
      rest.push_back(node);
    }
  }
  *left = std::move(rest);
  return taken;
}

// Counts nodes of child graphs, too.
std::size_t Count(const std::vector<GraphNode*>& nodes) {
  std::size_t count = 0;
  for (const GraphNode* node : nodes) {
    const auto* const child = std::get_if<ChildWork>(&node->work);
    count += child != nullptr ? child->graph->nodes.size() : 1;
  }
  return count;
}

void AddByClient(std::vector<GraphNode*> nodes, std::vector<GraphPart>* parts) {
  if (nodes.empty()) return;
  if (parts->empty() || parts->back().on_device != nullptr) parts->emplace_back();
  auto& last = parts->back().nodes;
  last.insert(last.end(), nodes.begin(), nodes.end());
}

Error Record(Session& session, ContextConnection& connection, GraphPart* part) {
  GraphCreate create;
  create.graph = NextHandle();
  CUSPAN_RETURN_IF_FAILED(connection.Send(create));
  RecordedPositions positions;
  GraphInstantiate op;
  op.graph = create.graph;
  op.exec = NextHandle();
  GraphInstantiate::Reply reply;
  Error result = RecordNodes(session, connection, create.graph, part->nodes, &positions);
  if (!result.failed()) result = connection.Call(op, &reply);
  if (result.failed()) {
    GraphDestroy end;
    end.graph = create.graph;
    static_cast<void>(connection.Send(end));
    return result;
  }
  part->on_device = std::make_shared<DeviceGraphExec>(connection.number(), op.exec, create.graph,
                                                      std::move(positions));
  return CUDA_SUCCESS;
}

}  // namespace

DeviceGraphExec::DeviceGraphExec(std::uint64_t connection_number, std::uint64_t handle,
                                 std::shared_ptr<DeviceGraph> conditions)
    : connection_number_(connection_number), handle_(handle), conditions_(std::move(conditions)) {}

DeviceGraphExec::DeviceGraphExec(std::uint64_t connection_number, std::uint64_t handle,
                                 std::uint64_t graph, RecordedPositions positions)
    : connection_number_(connection_number),
      handle_(handle),
      graph_(graph),
      positions_(std::move(positions)) {}

DeviceGraphExec::~DeviceGraphExec() {
  Session* const session = Session::IfStarted();
  const std::shared_ptr<ContextConnection> connection =
      session != nullptr ? FindLink(*session) : nullptr;
  if (connection == nullptr) return;
  GraphExecDestroy op;
  op.exec = handle_;
  static_cast<void>(connection->Send(op));
  if (graph_ == 0) return;
  GraphDestroy end;
  end.graph = graph_;
  static_cast<void>(connection->Send(end));
}

Error DeviceGraphExec::Launch(Session& session, const StreamTarget& target,
                              const std::vector<const GraphNode*>& changed) const {
  StreamTarget there{FindLink(session), 0};
  if (there.connection == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool elsewhere = there.connection != target.connection;
  if (elsewhere) {
    CUSPAN_RETURN_IF_FAILED(there.connection->OwnStream(&there.stream));
    CUSPAN_RETURN_IF_FAILED(session.events().Order(target, there));
  } else {
    there.stream = target.stream;
  }
  for (const GraphNode* node : changed) {
    const auto position = positions_.find(node);
    if (position != positions_.end())
      CUSPAN_RETURN_IF_FAILED(PostChange(session, there, handle_, position->second, *node));
  }
  GraphLaunch op;
  op.exec = handle_;
  op.stream = there.stream;
  CUSPAN_RETURN_IF_FAILED(there.connection->Post(op));
  if (conditions_ != nullptr) CUSPAN_RETURN_IF_FAILED(conditions_->NoteLaunch(session, there));
  return elsewhere ? Error(session.events().Order(there, target)) : CUDA_SUCCESS;
}

Error PutInOrder(const Graph& graph, std::vector<GraphPart>* parts) {
  auto order = InOrder(graph);
  if (!order) return CUDA_ERROR_INVALID_VALUE;
  parts->assign(1, {std::move(*order), nullptr});
  return CUDA_SUCCESS;
}

Error GiveToDevice(Session& session, ContextConnection& connection, const Graph& graph,
                   std::vector<GraphPart>* parts) {
  auto left = InOrder(graph);
  if (!left) return CUDA_ERROR_INVALID_VALUE;
  // Another part may write the value waited for.
  if (std::any_of(left->begin(), left->end(),
                  [](const auto* node) { return WaitsForValue(*node); }))
    return CUDA_ERROR_NOT_SUPPORTED;
  const OnDevice on_device(session, connection);
  std::vector<GraphPart> made;
  bool any = false;
  while (!left->empty()) {
    GraphPart part;
    part.nodes = ExtractFirst(&*left, on_device);
    if (Count(part.nodes) >= kMinNodes) {
      CUSPAN_RETURN_IF_FAILED(Record(session, connection, &part));
      made.push_back(std::move(part));
      any = true;
    } else {
      AddByClient(std::move(part.nodes), &made);
    }
    AddByClient(ExtractFirst(&*left, [&](const GraphNode& node) { return !on_device(node); }),
                &made);
  }
  if (!any) return CUDA_ERROR_NOT_SUPPORTED;
  *parts = std::move(made);
  return CUDA_SUCCESS;
}

}  // namespace cuspan
