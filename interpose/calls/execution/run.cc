#include "interpose/calls/execution/run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "interpose/calls/collective.h"
#include "interpose/calls/copy_box.h"
#include "interpose/calls/host_function.h"
#include "interpose/calls/launch.h"
#include "interpose/calls/memory_batch.h"
#include "interpose/calls/set.h"
#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

using Nodes = std::vector<GraphNode*>;

// True if each wait for a value depends on the one before it. One stream is enough then, since
// `order` is InOrder's.
bool WaitInARow(const Nodes& order) {
  std::unordered_map<const GraphNode*, std::size_t> waits_before;  // Including the node itself.
  std::size_t waits = 0;
  for (const GraphNode* node : order) {
    std::size_t before = 0;
    for (const GraphNode* dependency : node->dependencies) {
      const auto known = waits_before.find(dependency);
      if (known != waits_before.end()) before = std::max(before, known->second);
    }
    if (WaitsForValue(*node)) {
      if (before != waits) return false;
      before = ++waits;
    }
    waits_before[node] = before;
  }
  return true;
}

// Nodes depending on the same waits. In their own stream they hold up no others.
struct Branch {
  Nodes nodes;                              // Topological order.
  std::set<const Branch*> needed_branches;  // Branches its nodes depend on.
};

// Numbers of the waits before a node. A node has all waits of its dependencies.
using WaitSet = std::set<std::size_t>;
struct FewerFirst {
  bool operator()(const WaitSet& one, const WaitSet& other) const {
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  }
};
using Branches = std::map<WaitSet, Branch, FewerFirst>;

Branches BranchesOf(const Nodes& order) {
  Branches branches;
  std::unordered_map<const GraphNode*, Branches::const_iterator> places;
  std::size_t waits = 0;
  for (GraphNode* const node : order) {
    WaitSet before;
    if (WaitsForValue(*node)) before.insert(waits++);
    std::set<const Branch*> needed_branches;
    for (const GraphNode* dependency : node->dependencies) {
      const auto place = places.find(dependency);
      if (place == places.end()) continue;  // It is in another part.
      before.insert(place->second->first.begin(), place->second->first.end());
      needed_branches.insert(&place->second->second);
    }
    const auto branch = branches.try_emplace(before).first;
    branch->second.nodes.push_back(node);
    needed_branches.erase(&branch->second);
    branch->second.needed_branches.merge(needed_branches);
    places[node] = branch;
  }
  return branches;
}

// Streams for the work: one stream, and streams of other devices ordered with it.
class RunStream {
 public:
  // `held`: waits for values. It then avoids shared streams, not to hold up their other work.
  RunStream(Session& session, StreamTarget target, bool held)
      : session(session), target(std::move(target)), held(held) {}
  RunStream(const RunStream&) = delete;
  ~RunStream() {
    for (const StreamTarget& own : own_) {
      StreamDestroy op;
      op.stream = own.stream;
      static_cast<void>(own.connection->Post(op));
    }
  }

  // Makes a stream; the destructor destroys it, after its work.
  Error MakeStream(const std::shared_ptr<ContextConnection>& connection, StreamTarget* made) {
    StreamCreate op;
    op.stream = NextHandle();
    op.flags = CU_STREAM_NON_BLOCKING;
    CUSPAN_RETURN_IF_FAILED(connection->Post(op));
    *made = own_.emplace_back(StreamTarget{connection, op.stream});
    return CUDA_SUCCESS;
  }
  // `alone`: the work there must not hold up other work.
  Error OnDevice(int device, bool alone, StreamTarget* there) {
    CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &there->connection));
    if (!held && !alone) return there->connection->OwnStream(&there->stream);
    for (const StreamTarget& own : own_) {
      if (own.connection != there->connection) continue;
      *there = own;
      return CUDA_SUCCESS;
    }
    return MakeStream(there->connection, there);
  }

  Session& session;
  StreamTarget target;
  const bool held;

 private:
  std::vector<StreamTarget> own_;
};

Error RunIn(RunStream& run_stream, const Nodes& order);

struct Runner {
  RunStream& run_stream;
  const StreamTarget& target;  // Stream to use.
  Session& session = run_stream.session;

  Error operator()(const KernelWork& work) const {
    std::vector<void*> arguments;
    return LaunchOn(session, target, LaunchOf(work, &arguments));
  }
  // Pageable host memory is read now, other host memory in stream order, at each launch.
  Error operator()(const CopyWork& work) const { return CopyBox(session, target, work.box, true); }
  Error operator()(const SetWork& work) const {
    return SetElements(session, target, work.parameters);
  }
  Error operator()(const HostWork& work) const { return CallInOrder(session, target, work.call); }
  Error operator()(const ChildWork& work) const {
    const auto order = InOrder(*work.graph);
    return order ? RunIn(run_stream, *order) : Error(CUDA_ERROR_INVALID_VALUE);
  }
  Error operator()(const WaitWork& work) const {
    return session.events().Wait(target, NumberOf(work.event));
  }
  Error operator()(const RecordWork& work) const {
    return session.events().Record(NumberOf(work.event), target);
  }
  Error operator()(const MemoryBatchWork& work) const {
    return PostMemoryBatch(session, target, work);
  }
  Error operator()(const CollectiveWork& work) const {
    return PostCollectives(session, target, work);
  }
  Error operator()(const EmptyWork&) const { return CUDA_SUCCESS; }
  // Nothing to do: memory of a graph stays allocated.
  Error operator()(const AllocateWork&) const { return CUDA_SUCCESS; }
  Error operator()(const FreeWork&) const { return CUDA_SUCCESS; }
  // Runs on the device only (device_graph.cc).
  Error operator()(const ConditionWork&) const { return CUDA_ERROR_UNKNOWN; }
};

// Only kernels, memory operations and collectives are bound to a device; others run where their
// pointers, arrays and events are.
int DeviceOf(const GraphNode& node, const StreamTarget& target) {
  if (const auto* const batch = std::get_if<MemoryBatchWork>(&node.work)) return batch->device;
  if (const auto* const group = std::get_if<CollectiveWork>(&node.work)) return group->device;
  return std::holds_alternative<KernelWork>(node.work) ? node.device : target.connection->device();
}

Error RunNode(RunStream& run_stream, const GraphNode& node) {
  if (!node.enabled) return CUDA_SUCCESS;
  const int device = DeviceOf(node, run_stream.target);
  if (device == run_stream.target.connection->device())
    return std::visit(Runner{run_stream, run_stream.target}, node.work);
  StreamTarget there;
  CUSPAN_RETURN_IF_FAILED(run_stream.OnDevice(device, WaitsForValue(node), &there));
  CUSPAN_RETURN_IF_FAILED(run_stream.session.events().Order(run_stream.target, there));
  CUSPAN_RETURN_IF_FAILED(std::visit(Runner{run_stream, there}, node.work));
  return run_stream.session.events().Order(there, run_stream.target);
}

Error RunNodes(RunStream& run_stream, std::span<GraphNode* const> nodes) {
  for (const GraphNode* node : nodes) CUSPAN_RETURN_IF_FAILED(RunNode(run_stream, *node));
  return CUDA_SUCCESS;
}

// Uses separate streams, except for nodes without waits: they may write values others wait for.
Error RunApart(RunStream& run_stream, const Branches& branches) {
  Events& events = run_stream.session.events();
  std::map<const Branch*, std::unique_ptr<RunStream>> run_streams;
  for (const auto& [waits, branch] : branches) {
    if (waits.empty()) {
      CUSPAN_RETURN_IF_FAILED(RunNodes(run_stream, branch.nodes));
      continue;
    }
    auto own = std::make_unique<RunStream>(run_stream.session, run_stream.target, true);
    CUSPAN_RETURN_IF_FAILED(own->MakeStream(run_stream.target.connection, &own->target));
    CUSPAN_RETURN_IF_FAILED(events.Order(run_stream.target, own->target));
    for (const Branch* before : branch.needed_branches) {
      const auto known = run_streams.find(before);
      if (known != run_streams.end())
        CUSPAN_RETURN_IF_FAILED(events.Order(known->second->target, own->target));
    }
    CUSPAN_RETURN_IF_FAILED(RunNodes(*own, branch.nodes));
    run_streams[&branch] = std::move(own);
  }
  for (const auto& [branch, own] : run_streams)
    CUSPAN_RETURN_IF_FAILED(events.Order(own->target, run_stream.target));
  return CUDA_SUCCESS;
}

Error RunIn(RunStream& run_stream, const Nodes& order) {
  const auto first = std::find_if(order.begin(), order.end(),
                                  [](const auto* node) { return WaitsForValue(*node); });
  if (first != order.end() && !WaitInARow(order)) return RunApart(run_stream, BranchesOf(order));
  CUSPAN_RETURN_IF_FAILED(RunNodes(run_stream, {order.begin(), first}));
  RunStream held(run_stream.session, run_stream.target, true);
  return RunNodes(held, {first, order.end()});
}

}  // namespace

Error RunGraph(Session& session, const StreamTarget& target, const std::vector<GraphNode*>& order) {
  RunStream run_stream(session, target, false);
  return RunIn(run_stream, order);
}

}  // namespace cuspan
