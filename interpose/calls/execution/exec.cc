#include "interpose/calls/execution/exec.h"

#include <algorithm>

#include "interpose/calls/execution/device_graph.h"
#include "interpose/calls/execution/run.h"
#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/calls/graph/nodes.h"
#include "interpose/calls/launch.h"
#include "interpose/calls/memory_batch.h"

namespace cuspan {
namespace {

constexpr unsigned long long kKnownFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

Error PutInOrder(GraphExec& exec) {
  if (exec.graph->on_device != nullptr) {
    return WithSession(
        [&](Session& session) { return exec.graph->on_device->Instantiate(session, exec); });
  }
  return PutInOrder(*exec.graph, &exec.parts);
}

// Null for an unknown handle.
std::shared_ptr<GraphExec> FindExec(CUgraphExec handle) {
  std::shared_ptr<GraphExec> found;
  static_cast<void>(WithGraphTable([&](GraphTable& table) -> Error {
    const MutexLock lock(table.mutex);
    found = table.graphs.Find(handle);
    return CUDA_SUCCESS;
  }));
  return found;
}

// Prepares a graph with conditions for another instantiation.
Error MakeReady(CUgraph graph) {
  std::shared_ptr<DeviceGraph> on_device;
  CUSPAN_RETURN_IF_FAILED(
      WithGraph(graph, [&](Graphs&, const std::shared_ptr<Graph>& found) -> Error {
        on_device = found->on_device;
        return CUDA_SUCCESS;
      }));
  if (on_device == nullptr) return CUDA_SUCCESS;
  return WithSession([&](Session& session) { return on_device->MakeReady(session); });
}

// Graphs with conditions: sends changes since the last launch to the device.
Error Renew(Session& session, GraphExec& exec) {
  GraphTable& table = session.TableOf<GraphTable>();
  {
    const MutexLock lock(table.mutex);
    if (!exec.stale) return CUDA_SUCCESS;
    exec.parts.clear();
  }
  CUSPAN_RETURN_IF_FAILED(exec.graph->on_device->MakeReady(session));
  const MutexLock lock(table.mutex);
  return exec.stale ? PutInOrder(exec) : Error(CUDA_SUCCESS);
}

// True if none of the graph's kernels was unloaded.
bool HasItsKernels(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    if (const auto* const child = std::get_if<ChildWork>(&node->work))
      return HasItsKernels(*child->graph);
    const auto* const kernel = std::get_if<KernelWork>(&node->work);
    return kernel == nullptr || Registry::Get().FindFunction(kernel->function->handle) != nullptr;
  });
}

// True if the recorded parts still exist, and the device can run their changed nodes.
bool IsUpToDate(Session& session, GraphExec& exec) {
  if (exec.stale) return false;
  if (!exec.recorded) return true;
  const std::uint64_t version = Registry::Get().version();
  if (exec.registry_version != version && !HasItsKernels(*exec.graph)) return false;
  exec.registry_version = version;
  for (const GraphPart& part : exec.parts) {
    if (part.on_device == nullptr) continue;
    std::shared_ptr<ContextConnection> connection = part.on_device->FindLink(session);
    if (connection == nullptr) return false;
    const OnDevice on_device(session, *connection);
    for (const GraphNode* node : exec.changed)
      if (part.on_device->Has(*node) && !on_device(*node)) return false;
  }
  return true;
}

// Graphs without conditions; GraphTable::mutex is held. `give`: records the device's parts now.
// Otherwise they are recorded at the second launch of an unchanged graph.
Error Renew(Session& session, const StreamTarget& target, GraphExec& exec, bool give) {
  if (!IsUpToDate(session, exec)) {
    CUSPAN_RETURN_IF_FAILED(PutInOrder(exec));
    exec.launched = exec.recorded = exec.stale = false;
    exec.changed.clear();
  }
  if ((!give && !exec.launched) || exec.recorded) return CUDA_SUCCESS;
  exec.recorded = true;
  exec.registry_version = Registry::Get().version();
  // If the device refuses it, the client posts the nodes.
  static_cast<void>(GiveToDevice(session, *target.connection, *exec.graph, &exec.parts));
  return CUDA_SUCCESS;
}

Error RunParts(Session& session, const StreamTarget& target, GraphExec& exec) {
  GraphTable& table = session.TableOf<GraphTable>();
  std::vector<const GraphNode*> changed;
  if (exec.graph->on_device != nullptr) {
    CUSPAN_RETURN_IF_FAILED(Renew(session, exec));
  } else {
    const MutexLock lock(table.mutex);
    CUSPAN_RETURN_IF_FAILED(Renew(session, target, exec, false));
    changed = std::exchange(exec.changed, {});
    exec.launched = true;
  }
  for (const GraphPart& part : exec.parts) {
    const Error result = part.on_device != nullptr
                             ? part.on_device->Launch(session, target, changed)
                             : RunGraph(session, target, part.nodes);
    if (!result.failed()) continue;
    // The device may not have received all changes.
    const MutexLock lock(table.mutex);
    exec.stale = exec.stale || !changed.empty();
    return result;
  }
  return CUDA_SUCCESS;
}

// True for a thread's default stream: other threads have no handle of it.
bool IsThreadsOwn(Session& session, const StreamTarget& target) {
  return target.stream != 0 && session.streams().Find(target.stream) == nullptr;
}

// Orders a launch after the exec's last one: they do not overlap.
Error FollowLast(Session& session, const StreamTarget& target, const GraphExec& exec)
    CUSPAN_REQUIRES(exec.launching) {
  const StreamTarget& last = exec.last;
  const bool elsewhere = last.connection != nullptr &&
                         (last.connection != target.connection || last.stream != target.stream);
  if (!elsewhere || last.connection->fault() != CUDA_SUCCESS) return CUDA_SUCCESS;
  if (exec.end_event != 0) return session.events().Wait(target, exec.end_event);
  if (!IsThreadsOwn(session, last)) return session.events().Order(last, target);
  // The stream was destroyed, but its work may still be in flight.
  return last.connection->CallAndStore(DeviceSynchronize{});
}

void ForgetLast(Session& session, GraphExec& exec) CUSPAN_REQUIRES(exec.launching) {
  // Fails after a reset of the device: the event is gone.
  if (exec.end_event != 0)
    static_cast<void>(session.events().Destroy(std::exchange(exec.end_event, 0)));
}

// To be called after a launch.
Error NoteLast(Session& session, GraphExec& exec) CUSPAN_REQUIRES(exec.launching) {
  ForgetLast(session, exec);
  if (!IsThreadsOwn(session, exec.last)) return CUDA_SUCCESS;
  CUSPAN_RETURN_IF_FAILED(
      session.events().CreateOn(exec.last.connection, CU_EVENT_DISABLE_TIMING, &exec.end_event));
  return session.events().Record(exec.end_event, exec.last);
}

// To be called after a change of the node's work, with its former work.
void NoteChange(GraphExec& exec, const GraphNode& node, const Work& before, int device_before) {
  // If the graph has conditions, the driver allows one executable graph only. It is made again.
  if (exec.graph->on_device != nullptr) exec.stale = true;
  const bool recorded = std::any_of(exec.parts.begin(), exec.parts.end(), [&](const auto& part) {
    return part.on_device != nullptr && part.on_device->Has(node);
  });
  // A disabled node does nothing there. Enabling it rebuilds all parts.
  if (!recorded || !node.enabled || exec.stale) return;
  const Renewal renewal =
      node.device == device_before ? RenewalOf(before, node.work) : Renewal::kAllAnew;
  if (renewal == Renewal::kAllAnew) exec.stale = true;
  if (renewal != Renewal::kChange) return;
  const bool noted =
      std::find(exec.changed.begin(), exec.changed.end(), &node) != exec.changed.end();
  if (!noted) exec.changed.push_back(&node);
}

// Collects user objects of the graph, child graphs and bodies.
void CollectObjects(const Graph& graph, std::vector<std::shared_ptr<UserObject>>* objects) {
  for (const auto& [object, count] : graph.objects) objects->push_back(object);
  for (const auto& node : graph.nodes) {
    if (const auto* const child = std::get_if<ChildWork>(&node->work))
      CollectObjects(*child->graph, objects);
    if (const auto* const condition = std::get_if<ConditionWork>(&node->work))
      for (const auto& body : condition->bodies) CollectObjects(*body, objects);
  }
}

// True if a node of an exec may change to other work of the same kind.
bool MayBecome(const Work& mine, const Work& theirs) {
  const auto* const batch = std::get_if<MemoryBatchWork>(&mine);
  return batch == nullptr || AreAlike(*batch, std::get<MemoryBatchWork>(theirs));
}

// Compares nodes and edges. Returns the kind of mismatch and, in *where, its node.
CUgraphExecUpdateResult Compare(const Graph& mine, const Graph& theirs, const GraphNode** where) {
  const auto position = [](const Graph& of, const GraphNode* node) {
    return std::find_if(of.nodes.begin(), of.nodes.end(),
                        [&](const auto& n) { return n.get() == node; }) -
           of.nodes.begin();
  };
  *where = nullptr;
  if (mine.nodes.size() != theirs.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    const GraphNode& my = *mine.nodes[i];
    const GraphNode& their = *theirs.nodes[i];
    *where = &their;
    if (my.work.index() != their.work.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (my.dependencies.size() != their.dependencies.size())
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (std::size_t j = 0; j < their.dependencies.size(); ++j) {
      if (position(mine, my.dependencies[j]) != position(theirs, their.dependencies[j]))
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    // Memory keeps its address.
    if (std::holds_alternative<AllocateWork>(their.work))
      return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    if (!MayBecome(my.work, their.work)) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    const auto* const condition = std::get_if<ConditionWork>(&their.work);
    if (condition == nullptr) continue;
    const auto& kept = std::get<ConditionWork>(my.work);
    if (kept.condition != condition->condition || kept.kind != condition->kind ||
        kept.bodies.size() != condition->bodies.size())
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    for (std::size_t j = 0; j < kept.bodies.size(); ++j) {
      const auto result = Compare(*kept.bodies[j], *condition->bodies[j], where);
      if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
    }
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// Takes the work of the nodes of `theirs`, a matching graph.
void AdoptWork(Graphs& graphs, GraphExec& exec, Graph& mine, const Graph& theirs) {
  mine.objects = theirs.objects;  // Launches have their own references to used objects.
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    GraphNode& my = *mine.nodes[i];
    const int device = std::exchange(my.device, theirs.nodes[i]->device);
    if (auto* const condition = std::get_if<ConditionWork>(&my.work)) {
      const auto& bodies = std::get<ConditionWork>(theirs.nodes[i]->work).bodies;
      for (std::size_t j = 0; j < bodies.size(); ++j)
        AdoptWork(graphs, exec, *condition->bodies[j], *bodies[j]);
      continue;
    }
    if (auto* const child = std::get_if<ChildWork>(&my.work)) {
      Graph& inner = *std::get<ChildWork>(theirs.nodes[i]->work).graph;
      const GraphNode* where = nullptr;
      if (Compare(*child->graph, inner, &where) == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        AdoptWork(graphs, exec, *child->graph, inner);
        continue;
      }
      graphs.Destroy(child->graph->handle);
      child->graph = graphs.Clone(inner);
      child->graph->child = true;
      exec.stale = true;
      continue;
    }
    const Work before = std::exchange(my.work, theirs.nodes[i]->work);
    NoteChange(exec, my, before, device);
  }
}

// True if their conditions have equal initial values. The device keeps those of `mine`.
bool HaveSameConditions(const Graph& mine, const Graph& theirs) {
  if (mine.on_device == nullptr || theirs.on_device == nullptr)
    return mine.on_device == theirs.on_device;
  return mine.on_device->conditions() == theirs.on_device->conditions();
}

// Takes the work of `graph`, if its nodes and edges match those of the exec.
Error Update(Graphs& graphs, GraphExec& exec, const Graph& graph, UpdateReport* report) {
  const GraphNode* where = nullptr;
  CUgraphExecUpdateResult result = Compare(*exec.graph, graph, &where);
  if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS && !HaveSameConditions(*exec.graph, graph)) {
    result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    static_cast<void>(NotSupported("cudaGraphExecUpdate with changed conditional nodes"));
  }
  *report = {result, nullptr};
  if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    if (where != nullptr) report->node = HandleOf(*where);
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  AdoptWork(graphs, exec, *exec.graph, graph);
  exec.left = LeftByLaunch(*exec.graph);
  exec.stale = exec.stale || exec.graph->on_device != nullptr;
  return CUDA_SUCCESS;
}

// Finds the clone of a node in an exec's graph, also in child graphs and bodies of conditional
// nodes.
GraphNode* FindNode(const Graph& graph, std::uint64_t origin) {
  for (const auto& node : graph.nodes) {
    if (node->origin == origin) return node.get();
    if (const auto* const child = std::get_if<ChildWork>(&node->work))
      if (GraphNode* const inner = FindNode(*child->graph, origin); inner != nullptr) return inner;
    const auto* const condition = std::get_if<ConditionWork>(&node->work);
    if (condition == nullptr) continue;
    for (const auto& body : condition->bodies)
      if (GraphNode* const inner = FindNode(*body, origin); inner != nullptr) return inner;
  }
  return nullptr;
}

// Calls use(Graphs&, GraphExec&, GraphNode&) → Error with GraphTable::mutex held.
template <typename Use>
Error WithExecNode(CUgraphExec exec, CUgraphNode node, Use&& use) {
  return WithExec(exec, [&](Graphs& graphs, GraphExec& found) -> Error {
    GraphNode* const copy = FindNode(*found.graph, NumberOf(node));
    return copy == nullptr ? Error(CUDA_ERROR_INVALID_VALUE) : use(graphs, found, *copy);
  });
}

// Result for an unknown exec. In a capture, the driver refuses it as work not allowed in a graph.
Error RefuseExec(CUstream stream, DefaultStream meaning) {
  return OnStream(stream, meaning,
                  [](Session&, const StreamTarget&) -> Error { return CUDA_ERROR_INVALID_VALUE; });
}

}  // namespace

Error InstantiateGraph(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  CUgraphInstantiateResult reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return InstantiateGraph(exec, graph, flags, &reason);
}

Error InstantiateGraph(CUgraphExec* exec, CUgraph graph, unsigned long long flags,
                       CUgraphInstantiateResult* reason) {
  *reason = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *exec = nullptr;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
    return NotSupported("device-side graph launch");
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_RETURN_IF_FAILED(MakeReady(graph));
  return WithGraph(graph, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    const bool has_memory = HasMemoryNodes(*found);
    if (found->child || (has_memory && !found->exec.expired())) return CUDA_ERROR_NOT_SUPPORTED;
    auto made = std::make_shared<GraphExec>();
    made->graph = graphs.Clone(*found);
    made->graph->child = true;  // Not reachable by the program.
    made->flags = flags;
    made->left = LeftByLaunch(*made->graph);
    if (const Error result = PutInOrder(*made); result.failed()) {
      if (found->on_device == nullptr) *reason = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
      graphs.Destroy(made->graph->handle);
      return result;
    }
    if (has_memory) found->exec = made;
    graphs.Add(made);
    *exec = HandleOf<CUgraphExec>(made->handle);
    *reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
  });
}

Error DestroyExec(CUgraphExec handle) {
  std::shared_ptr<GraphExec> exec;
  CUSPAN_RETURN_IF_FAILED(WithGraphTable([&](GraphTable& table) -> Error {
    const MutexLock lock(table.mutex);
    exec = table.graphs.Find(handle);
    return table.graphs.Destroy(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }));
  const MutexLock launching(exec->launching);
  if (Session* const session = Session::IfStarted()) ForgetLast(*session, *exec);
  return CUDA_SUCCESS;
}

Error LaunchGraph(CUgraphExec handle, CUstream stream, DefaultStream meaning) {
  const std::shared_ptr<GraphExec> exec = FindExec(handle);
  if (exec == nullptr) return RefuseExec(stream, meaning);
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        const MutexLock launching(exec->launching);
        CUSPAN_RETURN_IF_FAILED(
            HandOver(session, exec->left,
                     (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0));
        CUSPAN_RETURN_IF_FAILED(FollowLast(session, target, *exec));
        exec->last = target;
        CUSPAN_RETURN_IF_FAILED(RunParts(session, target, *exec));
        CUSPAN_RETURN_IF_FAILED(NoteLast(session, *exec));
        // Its user objects are kept until the launch is complete.
        std::vector<std::shared_ptr<UserObject>> kept;
        CollectObjects(*exec->graph, &kept);
        if (!kept.empty()) {
          CUSPAN_RETURN_IF_FAILED(session.host_calls().Call(
              target, [kept = std::move(kept)](CUresult) { return HostFunction(); }));
        }
        return WaitIfBlocking(session, target);
      },
      [&](Session&, const StreamTarget&, const NewNode& node, Work* work) -> Described {
        if (HasMemoryNodes(*exec->graph)) return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true};
        return CloneAsChild(node.graphs, *exec->graph, work);
      });
}

Error UploadGraph(CUgraphExec handle, CUstream stream, DefaultStream meaning) {
  const std::shared_ptr<GraphExec> exec = FindExec(handle);
  if (exec == nullptr) return RefuseExec(stream, meaning);
  return OnStream(stream, meaning, [&](Session& session, const StreamTarget& target) -> Error {
    if (exec->graph->on_device != nullptr) return CUDA_SUCCESS;  // Recorded when instantiated.
    const MutexLock launching(exec->launching);
    const MutexLock lock(session.TableOf<GraphTable>().mutex);
    return Renew(session, target, *exec, true);
  });
}

Error UpdateExec(CUgraphExec exec, CUgraph graph, UpdateReport* report) {
  *report = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr};
  return WithGraph(graph, [&](Graphs& graphs, const std::shared_ptr<Graph>& found) -> Error {
    const std::shared_ptr<GraphExec> target = graphs.Find(exec);
    if (target == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (found->child) return CUDA_ERROR_NOT_SUPPORTED;
    return Update(graphs, *target, *found, report);
  });
}

Error SetExecNode(CUgraphExec exec, CUgraphNode node, Work work) {
  return WithExecNode(exec, node, [&](Graphs&, GraphExec& found, GraphNode& copy) -> Error {
    if (copy.work.index() == work.index() && !MayBecome(copy.work, work))
      return CUDA_ERROR_INVALID_VALUE;
    const Work before = copy.work;
    CUSPAN_RETURN_IF_FAILED(ReplaceWork(copy, std::move(work)));
    NoteChange(found, copy, before, copy.device);
    return CUDA_SUCCESS;
  });
}

Error SetExecChild(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return WithExecNode(exec, node, [&](Graphs& graphs, GraphExec& found, GraphNode& copy) -> Error {
    const std::shared_ptr<Graph> theirs = graphs.Find(child);
    auto* const work = std::get_if<ChildWork>(&copy.work);
    if (theirs == nullptr || work == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const GraphNode* where = nullptr;
    if (Compare(*work->graph, *theirs, &where) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
    AdoptWork(graphs, found, *work->graph, *theirs);
    return CUDA_SUCCESS;
  });
}

namespace {

bool CanBeDisabled(const GraphNode& node) {
  const CUgraphNodeType type = TypeOf(node.work);
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET;
}

}  // namespace

Error EnableNode(CUgraphExec exec, CUgraphNode node, bool enabled) {
  return WithExecNode(exec, node, [&](Graphs&, GraphExec& found, GraphNode& copy) -> Error {
    if (!CanBeDisabled(copy)) return CUDA_ERROR_INVALID_VALUE;
    found.stale = found.stale || copy.enabled != enabled;
    copy.enabled = enabled;
    return CUDA_SUCCESS;
  });
}

Error IsNodeEnabled(CUgraphExec exec, CUgraphNode node, bool* enabled) {
  return WithExecNode(exec, node, [&](Graphs&, const GraphExec&, const GraphNode& copy) -> Error {
    if (!CanBeDisabled(copy)) return CUDA_ERROR_INVALID_VALUE;
    *enabled = copy.enabled;
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
