// Launches: the nodes' work, handed to a stream in an order that the edges allow.
#include "interpose/calls/graph/graph.h"
#include "interpose/calls/host_function.h"
#include "interpose/calls/launch.h"
#include "interpose/calls/memory_batch.h"
#include "interpose/calls/set.h"
#include "interpose/client/handles.h"

namespace cuspan {
namespace {

struct Runner {
  Session& session;
  const StreamTarget& target;

  Error operator()(const KernelWork& work) const {
    std::vector<void*> arguments;
    for (const auto& argument : work.arguments)
      arguments.push_back(const_cast<std::byte*>(argument.data()));
    return LaunchOn(session, target,
                    {work.function,
                     {work.grid, work.block, work.dynamic_shared},
                     arguments.data(),
                     nullptr,
                     work.cooperative,
                     work.cluster});
  }
  // Host memory is read now, when it is pageable, and otherwise when its turn has come: at each
  // launch.
  Error operator()(const CopyWork& work) const { return CopyBox(session, target, work.box, true); }
  Error operator()(const SetWork& work) const {
    return SetElements(session, target, work.parameters);
  }
  Error operator()(const HostWork& work) const { return CallInOrder(session, target, work.call); }
  Error operator()(const ChildWork& work) const {
    const auto order = InOrder(*work.graph);
    return order ? RunGraph(session, target, *order) : Error(CUDA_ERROR_INVALID_VALUE);
  }
  Error operator()(const WaitWork& work) const {
    return session.events().Wait(target, NumberOf(work.event));
  }
  Error operator()(const RecordWork& work) const {
    return session.events().Record(NumberOf(work.event), target);
  }
  // Nothing to do: the memory of a graph stays where it is.
  Error operator()(const MemoryBatchWork& work) const {
    return PostMemoryBatch(session, target, work);
  }
  Error operator()(const EmptyWork&) const { return CUDA_SUCCESS; }
  Error operator()(const AllocateWork&) const { return CUDA_SUCCESS; }
  Error operator()(const FreeWork&) const { return CUDA_SUCCESS; }
  // The device has it (device_graph.cc): what is run from here has none.
  Error operator()(const ConditionWork&) const { return CUDA_ERROR_UNKNOWN; }
};

// Only kernels and memory operations run where they were put; the rest goes by its pointers, arrays
// and events.
int DeviceOf(const GraphNode& node, const StreamTarget& target) {
  if (const auto* const batch = std::get_if<MemoryBatchWork>(&node.work)) return batch->device;
  return std::holds_alternative<KernelWork>(node.work) ? node.device : target.link->device();
}

// The work of another device than the target's, there.
Error RunThere(Session& session, const StreamTarget& target, const StreamTarget& there,
               const Work& work) {
  CUSPAN_RETURN_IF_FAILED(session.events().Order(target, there));
  CUSPAN_RETURN_IF_FAILED(std::visit(Runner{session, there}, work));
  return session.events().Order(there, target);
}

}  // namespace

Error RunNode(Session& session, const StreamTarget& target, const GraphNode& node) {
  const int device = DeviceOf(node, target);
  if (device == target.link->device()) return std::visit(Runner{session, target}, node.work);
  StreamTarget there;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &there.link));
  if (!std::holds_alternative<MemoryBatchWork>(node.work)) {
    CUSPAN_RETURN_IF_FAILED(there.link->OwnStream(&there.stream));
    return RunThere(session, target, there, node.work);
  }
  // A wait would hold up what else is in that stream.
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = CU_STREAM_NON_BLOCKING;
  CUSPAN_RETURN_IF_FAILED(there.link->Post(create));
  there.stream = create.stream;
  const Error result = RunThere(session, target, there, node.work);
  StreamDestroy destroy;
  destroy.stream = create.stream;
  const Error destroyed = there.link->Post(destroy);
  return result.failed() ? result : destroyed;
}

Error RunGraph(Session& session, const StreamTarget& target, const std::vector<GraphNode*>& order) {
  for (const GraphNode* node : order) {
    if (node->enabled) CUSPAN_RETURN_IF_FAILED(RunNode(session, target, *node));
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan
