#include "interpose/calls/execution/device_graph.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "interpose/calls/execution/recorder.h"
#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

using NodeSet = std::unordered_set<const GraphNode*>;

bool IsCondition(const GraphNode& node) { return std::holds_alternative<ConditionWork>(node.work); }

// Includes child graphs.
bool HasKernelOf(const GraphNode& node, int device) {
  if (const auto* const child = std::get_if<ChildWork>(&node.work)) {
    const auto& nodes = child->graph->nodes;
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const auto& inner) { return HasKernelOf(*inner, device); });
  }
  return std::holds_alternative<KernelWork>(node.work) && node.device == device;
}

// Returns the nodes selected by `start`, and all nodes before them.
template <typename Start>
NodeSet WithAllBefore(const std::vector<GraphNode*>& order, Start&& start) {
  NodeSet set;
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    if (!set.contains(*node) && !start(**node)) continue;
    set.insert(*node);
    for (const GraphNode* dependency : (*node)->dependencies) set.insert(dependency);
  }
  return set;
}

// Calls use(const ConditionWork&) for all conditional nodes of a graph, those in bodies included.
void ForEachCondition(const Graph& graph, const std::function<void(const ConditionWork&)>& use) {
  for (const auto& node : graph.nodes) {
    const auto* const work = std::get_if<ConditionWork>(&node->work);
    if (work == nullptr) continue;
    use(*work);
    for (const auto& body : work->bodies) ForEachCondition(*body, use);
  }
}

}  // namespace

Error DeviceGraph::Create(Session& session, const Graph& whole,
                          std::shared_ptr<DeviceGraph>* made) {
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&connection));
  GraphCreate op;
  op.graph = NextHandle();
  CUSPAN_RETURN_IF_FAILED(connection->Send(op));
  made->reset(new DeviceGraph(connection->device(), connection->number(), op.graph, whole.handle));
  return CUDA_SUCCESS;
}

DeviceGraph::~DeviceGraph() {
  Session* const session = Session::IfStarted();
  std::shared_ptr<ContextConnection> connection;
  if (session == nullptr) return;
  if (launched_ != 0) static_cast<void>(session->events().Destroy(launched_));
  if (FindLink(*session, &connection).failed()) return;
  GraphDestroy op;
  op.graph = handle_;
  static_cast<void>(connection->Send(op));
}

Error DeviceGraph::FindLink(Session& session,
                            std::shared_ptr<ContextConnection>* connection) const {
  *connection = session.devices().ConnectionNumbered(connection_number_);
  return *connection != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Error DeviceGraph::AddCondition(Session& session, unsigned value, unsigned flags,
                                std::uint64_t* number) {
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(FindLink(session, &connection));
  GraphCondition op;
  op.graph = handle_;
  op.value = value;
  op.flags = flags;
  GraphCondition::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection->Call(op, &reply));
  conditions_.push_back({reply.condition, value, flags});
  *number = reply.condition;
  return CUDA_SUCCESS;
}

Error DeviceGraph::NoteLaunch(Session& session, const StreamTarget& target) {
  if (launched_ == 0)
    CUSPAN_RETURN_IF_FAILED(
        session.events().CreateOn(target.connection, CU_EVENT_DISABLE_TIMING, &launched_));
  return session.events().Record(launched_, target);
}

Error DeviceGraph::MakeReady(Session& session) {
  const MutexLock lock(renewing_);
  if (!exec_.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  if (ready_) return CUDA_SUCCESS;
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(FindLink(session, &connection));
  // The driver allows one executable graph; the former one ends with its last launch.
  if (launched_ != 0) CUSPAN_RETURN_IF_FAILED(session.events().Synchronize(launched_));
  GraphClear clear;
  clear.graph = handle_;
  GraphClear::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection->Call(clear, &reply));
  ready_ = true;
  return CUDA_SUCCESS;
}

Error DeviceGraph::Build(Session& session, ContextConnection& connection,
                         const std::vector<GraphNode*>& order,
                         std::shared_ptr<DeviceGraphExec>* made) {
  ready_ = false;
  RecordedPositions positions;
  CUSPAN_RETURN_IF_FAILED(RecordNodes(session, connection, handle_, order, &positions));
  GraphInstantiate op;
  op.graph = handle_;
  op.exec = NextHandle();
  GraphInstantiate::Reply reply;
  CUSPAN_RETURN_IF_FAILED(connection.Call(op, &reply));
  *made = std::make_shared<DeviceGraphExec>(connection_number_, op.exec, shared_from_this());
  return CUDA_SUCCESS;
}

Error DeviceGraph::Instantiate(Session& session, GraphExec& exec) {
  // Another thread was faster.
  if (!ready_ || !exec_.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(FindLink(session, &connection));
  std::unordered_set<std::uint64_t> used;
  ForEachCondition(*exec.graph, [&](const ConditionWork& work) { used.insert(work.condition); });
  for (const Condition& condition : conditions_)
    if (!used.contains(condition.number))
      return exec.stale
                 ? NotSupported(
                       "updating an executable graph after adding a conditional node to its graph")
                 : Error(CUDA_ERROR_INVALID_VALUE);
  const auto order = InOrder(*exec.graph);
  if (!order) return CUDA_ERROR_INVALID_VALUE;

  const OnDevice on_device(session, *connection);
  const NodeSet leading = WithAllBefore(*order, IsCondition);
  const NodeSet before = WithAllBefore(
      *order, [&](const GraphNode& node) { return leading.contains(&node) && !on_device(node); });
  GraphPart first;
  GraphPart own;
  GraphPart last;
  NodeSet behind;
  for (GraphNode* node : *order) {
    if (!before.contains(node)) {
      // Later nodes the device can run are also recorded: their kernels may set conditions, too.
      const bool follows = std::any_of(node->dependencies.begin(), node->dependencies.end(),
                                       [&](const GraphNode* one) { return behind.contains(one); });
      if (!follows && on_device(*node)) {
        own.nodes.push_back(node);
      } else {
        behind.insert(node);
        last.nodes.push_back(node);
      }
      continue;
    }
    // The kernel may set a condition, possible only in the device's graph.
    if (IsCondition(*node) || HasKernelOf(*node, device_)) {
      return NotSupported(
          "a graph with host nodes, or work of another device, between a kernel and a conditional "
          "node");
    }
    first.nodes.push_back(node);
  }
  CUSPAN_RETURN_IF_FAILED(Build(session, *connection, own.nodes, &own.on_device));
  exec_ = own.on_device;
  exec.parts = {std::move(first), std::move(own), std::move(last)};
  exec.stale = false;
  return CUDA_SUCCESS;
}

}  // namespace cuspan
