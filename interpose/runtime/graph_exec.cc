// What a program makes of its graphs to launch them: instantiation, launches, updates.
#include <algorithm>

#include "interpose/runtime/caller.h"
#include "interpose/runtime/capture.h"
#include "interpose/runtime/copy_box.h"
#include "interpose/runtime/graph_device.h"
#include "interpose/runtime/graph_use.h"

namespace cuspan {
namespace {

constexpr unsigned long long kKnownFlags = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                           cudaGraphInstantiateFlagUpload |
                                           cudaGraphInstantiateFlagUseNodePriority;

Error PutInOrder(GraphExec& exec) {
  if (exec.graph->on_device != nullptr) {
    return WithSession(
        [&](Session& session) { return exec.graph->on_device->Instantiate(session, exec); });
  }
  auto order = InOrder(*exec.graph);
  if (!order) return cudaErrorInvalidValue;
  exec.order = std::move(*order);
  return cudaSuccess;
}

// Before the graph, if it has conditions, is instantiated again.
Error MakeReady(cudaGraph_t graph) {
  std::shared_ptr<DeviceGraph> on_device;
  CUSPAN_RETURN_IF_FAILED(WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
    on_device = found->on_device;
    return cudaSuccess;
  }));
  if (on_device == nullptr) return cudaSuccess;
  return WithSession([&](Session& session) { return on_device->MakeReady(session); });
}

Error Instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  if (exec == nullptr) return cudaErrorInvalidValue;
  *exec = nullptr;
  if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0)
    return NotSupported("graphs that kernels launch");
  if ((flags & ~kKnownFlags) != 0) return cudaErrorInvalidValue;
  CUSPAN_RETURN_IF_FAILED(MakeReady(graph));
  return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
    auto made = std::make_shared<GraphExec>();
    made->graph = Graphs::Get().Clone(*found);
    made->graph->child = true;  // The program can not reach it but through the exec.
    made->flags = flags;
    if (const Error result = PutInOrder(*made); result.failed()) {
      Graphs::Get().Destroy(made->graph->handle);
      return result;
    }
    Graphs::Get().Add(made);
    *exec = HandleOf<cudaGraphExec_t>(made->handle);
    return cudaSuccess;
  });
}

// use(GraphExec&) → Error, with the graphs in peace.
template <typename Use>
Error WithExec(cudaGraphExec_t exec, Use&& use) {
  CUSPAN_RETURN_IF_FAILED(CheckMayCall());
  std::lock_guard lock(Graphs::Get().mutex);
  const std::shared_ptr<GraphExec> found = Graphs::Get().Find(exec);
  if (found == nullptr) return cudaErrorInvalidValue;
  return use(*found);
}

// The node of an exec's graph that stands for one of the graph that it was made of; also in the
// bodies of conditional nodes.
GraphNode* FindNode(const Graph& graph, std::uint64_t origin) {
  for (const auto& node : graph.nodes) {
    if (node->origin == origin) return node.get();
    const auto* const condition = std::get_if<ConditionWork>(&node->work);
    if (condition == nullptr) continue;
    for (const auto& body : condition->bodies)
      if (GraphNode* const inner = FindNode(*body, origin); inner != nullptr) return inner;
  }
  return nullptr;
}

// use(GraphNode&) → Error.
template <typename Use>
Error WithExecNode(cudaGraphExec_t exec, cudaGraphNode_t node, Use&& use) {
  return WithExec(exec, [&](GraphExec& found) -> Error {
    GraphNode* const copy = FindNode(*found.graph, NumberOf(node));
    return copy == nullptr ? Error(cudaErrorInvalidValue) : use(*copy);
  });
}

// The same for what changes the node.
template <typename Use>
Error ChangeExecNode(cudaGraphExec_t exec, cudaGraphNode_t node, Use&& use) {
  return WithExec(exec, [&](GraphExec& found) -> Error {
    GraphNode* const copy = FindNode(*found.graph, NumberOf(node));
    if (copy == nullptr) return cudaErrorInvalidValue;
    found.stale = true;
    return use(*copy);
  });
}

template <typename Parameters>
Error SetInExec(cudaGraphExec_t exec, cudaGraphNode_t node, Parameters* parameters) {
  Work work;
  CUSPAN_RETURN_IF_FAILED(DescribeWork(parameters, &work));
  return SetExecNode(exec, node, std::move(work));
}

// What was changed since the last launch, the device gets now.
Error Renew(Session& session, GraphExec& exec) {
  {
    std::lock_guard lock(Graphs::Get().mutex);
    if (!exec.stale) return cudaSuccess;
    exec.on_device = nullptr;
  }
  CUSPAN_RETURN_IF_FAILED(exec.graph->on_device->MakeReady(session));
  std::lock_guard lock(Graphs::Get().mutex);
  return exec.stale ? PutInOrder(exec) : Error(cudaSuccess);
}

// Those of the graph and of all that is inside.
void CollectObjects(const Graph& graph, std::vector<std::shared_ptr<UserObject>>* objects) {
  for (const auto& [object, count] : graph.objects) objects->push_back(object);
  for (const auto& node : graph.nodes) {
    if (const auto* const child = std::get_if<ChildWork>(&node->work))
      CollectObjects(*child->graph, objects);
    if (const auto* const condition = std::get_if<ConditionWork>(&node->work))
      for (const auto& body : condition->bodies) CollectObjects(*body, objects);
  }
}

Error LaunchGraph(cudaGraphExec_t handle, cudaStream_t stream, DefaultStream meaning) {
  std::shared_ptr<GraphExec> exec;
  {
    std::lock_guard lock(Graphs::Get().mutex);
    exec = Graphs::Get().Find(handle);
  }
  if (exec == nullptr) return cudaErrorInvalidValue;
  return InStream(
      stream, meaning,
      [&](Session& session, const StreamTarget& target) -> Error {
        std::lock_guard launching(exec->launching);
        // Two launches of one exec do not run at a time. (A stream that is gone has nothing left to
        // wait for.)
        const bool elsewhere = exec->last.link != nullptr && (exec->last.link != target.link ||
                                                              exec->last.stream != target.stream);
        if (elsewhere && exec->last.link->fault() == CUDA_SUCCESS &&
            (exec->last.stream == 0 || session.FindStream(exec->last.stream) != nullptr)) {
          CUSPAN_RETURN_IF_FAILED(session.Order(exec->last, target));
        }
        exec->last = target;
        if (exec->graph->on_device != nullptr) CUSPAN_RETURN_IF_FAILED(Renew(session, *exec));
        CUSPAN_RETURN_IF_FAILED(RunGraph(session, target, exec->order));
        if (exec->on_device != nullptr) {
          CUSPAN_RETURN_IF_FAILED(exec->on_device->Launch(session, target));
          CUSPAN_RETURN_IF_FAILED(RunGraph(session, target, exec->behind));
        }
        // What it keeps for the program stays until the launch is over.
        std::vector<std::shared_ptr<UserObject>> kept;
        CollectObjects(*exec->graph, &kept);
        if (kept.empty()) return cudaSuccess;
        return session.CallHost(target,
                                [kept = std::move(kept)](CUresult) { return HostFunction(); });
      },
      // Called with the graphs in peace.
      [&](Session&, const StreamTarget&, Work* work) -> Error {
        return CloneAsChild(*exec->graph, work);
      });
}

void Report(cudaGraphExecUpdateResultInfo* info, cudaGraphExecUpdateResult result,
            const GraphNode* node) {
  if (info == nullptr) return;
  *info = {};
  info->result = result;
  if (node != nullptr) info->errorNode = HandleOf(*node);
}

// Whether the nodes and edges of the two are alike; where not, what and which node says so.
cudaGraphExecUpdateResult Compare(const Graph& mine, const Graph& theirs, const GraphNode** where) {
  const auto position = [](const Graph& of, const GraphNode* node) {
    return std::find_if(of.nodes.begin(), of.nodes.end(),
                        [&](const auto& n) { return n.get() == node; }) -
           of.nodes.begin();
  };
  *where = nullptr;
  if (mine.nodes.size() != theirs.nodes.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    const GraphNode& my = *mine.nodes[i];
    const GraphNode& their = *theirs.nodes[i];
    *where = &their;
    if (my.work.index() != their.work.index()) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (my.dependencies.size() != their.dependencies.size())
      return cudaGraphExecUpdateErrorTopologyChanged;
    for (std::size_t j = 0; j < their.dependencies.size(); ++j) {
      if (position(mine, my.dependencies[j]) != position(theirs, their.dependencies[j]))
        return cudaGraphExecUpdateErrorTopologyChanged;
    }
    // Memory has its place for good.
    if (std::holds_alternative<AllocateWork>(their.work))
      return cudaGraphExecUpdateErrorNotSupported;
    const auto* const condition = std::get_if<ConditionWork>(&their.work);
    if (condition == nullptr) continue;
    const auto& kept = std::get<ConditionWork>(my.work);
    if (kept.condition != condition->condition || kept.kind != condition->kind ||
        kept.bodies.size() != condition->bodies.size())
      return cudaGraphExecUpdateErrorParametersChanged;
    for (std::size_t j = 0; j < kept.bodies.size(); ++j) {
      const auto result = Compare(*kept.bodies[j], *condition->bodies[j], where);
      if (result != cudaGraphExecUpdateSuccess) return result;
    }
  }
  return cudaGraphExecUpdateSuccess;
}

// Takes the work of the nodes of `theirs`, which is alike.
void Take(Graph& mine, const Graph& theirs) {
  mine.objects = theirs.objects;  // Launches have references of their own to what they use.
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    GraphNode& my = *mine.nodes[i];
    my.device = theirs.nodes[i]->device;
    if (auto* const condition = std::get_if<ConditionWork>(&my.work)) {
      const auto& bodies = std::get<ConditionWork>(theirs.nodes[i]->work).bodies;
      for (std::size_t j = 0; j < bodies.size(); ++j) Take(*condition->bodies[j], *bodies[j]);
      continue;
    }
    Work work = theirs.nodes[i]->work;
    if (auto* const child = std::get_if<ChildWork>(&work)) {
      Graphs::Get().Destroy(std::get<ChildWork>(my.work).graph->handle);
      child->graph = Graphs::Get().Clone(*child->graph);
      child->graph->child = true;
    }
    my.work = std::move(work);
  }
}

// Whether the conditions of the two start alike; what the device has of `mine` stays.
bool HaveSameConditions(const Graph& mine, const Graph& theirs) {
  if (mine.on_device == nullptr || theirs.on_device == nullptr)
    return mine.on_device == theirs.on_device;
  return mine.on_device->conditions() == theirs.on_device->conditions();
}

// Takes the work of `graph`, whose nodes and edges must be like those that the exec was made of.
Error Update(GraphExec& exec, const Graph& graph, cudaGraphExecUpdateResultInfo* info) {
  const GraphNode* where = nullptr;
  cudaGraphExecUpdateResult result = Compare(*exec.graph, graph, &where);
  if (result == cudaGraphExecUpdateSuccess && !HaveSameConditions(*exec.graph, graph)) {
    result = cudaGraphExecUpdateErrorNotSupported;
    static_cast<void>(NotSupported("cudaGraphExecUpdate with other conditions"));
  }
  if (result != cudaGraphExecUpdateSuccess) {
    Report(info, result, where);
    return cudaErrorGraphExecUpdateFailure;
  }
  Take(*exec.graph, graph);
  exec.stale = true;
  Report(info, cudaGraphExecUpdateSuccess, nullptr);
  return cudaSuccess;
}

}  // namespace

Error SetExecNode(cudaGraphExec_t exec, cudaGraphNode_t node, Work work) {
  return ChangeExecNode(exec, node,
                        [&](GraphNode& copy) { return ReplaceWork(copy, std::move(work)); });
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Programs of CUDA 11 call it with places for a node and a text in place of the flags.
CUSPAN_EXPORT cudaError_t
CuspanGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long third,
                       char* text, std::size_t text_bytes) __asm__("cudaGraphInstantiate");
CUSPAN_EXPORT cudaError_t CuspanGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long third, char* text,
                                                 std::size_t text_bytes) {
  if (CallerRelease(__builtin_return_address(0)) >= 12)
    return Answer([&] { return Instantiate(exec, graph, third); });
  auto* const node = HandleOf<cudaGraphNode_t*>(third);
  if (node != nullptr) *node = nullptr;
  if (text != nullptr && text_bytes != 0) *text = 0;
  return Answer([&] { return Instantiate(exec, graph, 0); });
}

CUSPAN_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        unsigned long long flags) {
  return Answer([&] { return Instantiate(exec, graph, flags); });
}

CUSPAN_EXPORT_TWINS(cudaGraphInstantiateWithParams, _ptsz,
                    (cudaGraphExec_t * exec, cudaGraph_t graph,
                     cudaGraphInstantiateParams* parameters),
                    Answer([&]() -> Error {
                      static_cast<void>(meaning);
                      if (parameters == nullptr) return cudaErrorInvalidValue;
                      parameters->errNode_out = nullptr;
                      const Error result = Instantiate(exec, graph, parameters->flags);
                      parameters->result_out = result.failed()
                                                   ? cudaGraphInstantiateInvalidStructure
                                                   : cudaGraphInstantiateSuccess;
                      return result;
                    }))

CUSPAN_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Answer([&]() -> Error {
    std::lock_guard lock(Graphs::Get().mutex);
    return Graphs::Get().Destroy(exec) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return Answer([&]() -> Error {
    if (flags == nullptr) return cudaErrorInvalidValue;
    return WithExec(exec, [&](const GraphExec& found) -> Error {
      *flags = found.flags;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT_TWINS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                    Answer([&] { return LaunchGraph(exec, stream, meaning); }))

// A launch needs nothing to be sent before it.
CUSPAN_EXPORT_TWINS(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
                    Answer([&]() -> Error {
                      CUSPAN_RETURN_IF_FAILED(
                          WithExec(exec, [](const GraphExec&) -> Error { return cudaSuccess; }));
                      return OnStream(stream, meaning, [](Session&, const StreamTarget&) -> Error {
                        return cudaSuccess;
                      });
                    }))

// Programs of CUDA 11 call it with places for a node and the result in place of the structure.
CUSPAN_EXPORT cudaError_t
CuspanGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, void* third,
                      cudaGraphExecUpdateResult* result) __asm__("cudaGraphExecUpdate");
CUSPAN_EXPORT cudaError_t CuspanGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                                void* third, cudaGraphExecUpdateResult* result) {
  const bool is_11 = CallerRelease(__builtin_return_address(0)) == 11;
  cudaGraphExecUpdateResultInfo info{};
  auto* const out = is_11 ? &info : static_cast<cudaGraphExecUpdateResultInfo*>(third);
  const cudaError_t error = Answer([&] {
    return WithExec(exec, [&](GraphExec& found) -> Error {
      const std::shared_ptr<Graph> from = Graphs::Get().Find(graph);
      if (from == nullptr) return cudaErrorInvalidValue;
      return Update(found, *from, out);
    });
  });
  if (is_11 && third != nullptr) *static_cast<cudaGraphNode_t*>(third) = info.errorNode;
  if (is_11 && result != nullptr) *result = info.result;
  return error;
}

CUSPAN_EXPORT cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     cudaGraphNodeParams* parameters) {
  return Answer([&] { return SetInExec(exec, node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec,
                                                           cudaGraphNode_t node,
                                                           const cudaKernelNodeParams* parameters) {
  return Answer([&] { return SetInExec(exec, node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec,
                                                           cudaGraphNode_t node,
                                                           const cudaMemcpy3DParms* parameters) {
  return Answer([&] { return SetInExec(exec, node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec,
                                                             cudaGraphNode_t node,
                                                             void* destination, const void* source,
                                                             std::size_t bytes,
                                                             cudaMemcpyKind kind) {
  return Answer([&]() -> Error {
    Work work;
    CUSPAN_RETURN_IF_FAILED(DescribeRun(destination, source, bytes, kind, &work));
    return SetExecNode(exec, node, std::move(work));
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec,
                                                           cudaGraphNode_t node,
                                                           const cudaMemsetParams* parameters) {
  return Answer([&] { return SetInExec(exec, node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                         const cudaHostNodeParams* parameters) {
  return Answer([&] { return SetInExec(exec, node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec,
                                                               cudaGraphNode_t node,
                                                               cudaEvent_t event) {
  return Answer([&] { return SetExecNode(exec, node, RecordWork{event}); });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec,
                                                             cudaGraphNode_t node,
                                                             cudaEvent_t event) {
  return Answer([&] { return SetExecNode(exec, node, WaitWork{event}); });
}

// The graph inside must be like the one that was there.
CUSPAN_EXPORT cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec,
                                                               cudaGraphNode_t node,
                                                               cudaGraph_t child) {
  return Answer([&] {
    return ChangeExecNode(exec, node, [&](GraphNode& copy) -> Error {
      const std::shared_ptr<Graph> theirs = Graphs::Get().Find(child);
      auto* const work = std::get_if<ChildWork>(&copy.work);
      if (theirs == nullptr || work == nullptr) return cudaErrorInvalidValue;
      const GraphNode* where = nullptr;
      if (Compare(*work->graph, *theirs, &where) != cudaGraphExecUpdateSuccess)
        return cudaErrorInvalidValue;
      Take(*work->graph, *theirs);
      return cudaSuccess;
    });
  });
}

// Only what does something on a device can be left out.
CUSPAN_EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  unsigned enabled) {
  return Answer([&] {
    return ChangeExecNode(exec, node, [&](GraphNode& copy) -> Error {
      const cudaGraphNodeType type = TypeOf(copy.work);
      if (type != cudaGraphNodeTypeKernel && type != cudaGraphNodeTypeMemcpy &&
          type != cudaGraphNodeTypeMemset)
        return cudaErrorInvalidValue;
      copy.enabled = enabled != 0;
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  unsigned* enabled) {
  return Answer([&]() -> Error {
    if (enabled == nullptr) return cudaErrorInvalidValue;
    return WithExecNode(exec, node, [&](GraphNode& copy) -> Error {
      *enabled = copy.enabled ? 1 : 0;
      return cudaSuccess;
    });
  });
}
