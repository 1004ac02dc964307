// Launches: the nodes' work, handed to streams in an order that the edges allow.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "interpose/calls/collective.h"
#include "interpose/calls/graph/graph.h"
#include "interpose/calls/host_function.h"
#include "interpose/calls/launch.h"
#include "interpose/calls/memory_batch.h"
#include "interpose/calls/set.h"
#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

using Nodes = std::vector<GraphNode*>;

// Whether each wait for a value comes after the one before it; `order` is InOrder's, so that one
// stream is enough then.
bool WaitInARow(const Nodes& order) {
  std::unordered_map<const GraphNode*, std::size_t> waits_before;  // With the node itself.
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

// Nodes that come after the same waits. A stream of their own holds up no others.
struct Branch {
  Nodes nodes;                     // Each behind those that it depends on.
  std::set<const Branch*> behind;  // Those that its nodes depend on.
};

// The numbers of waits. Who depends on another comes after all that the other does.
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
    std::set<const Branch*> behind;
    for (const GraphNode* dependency : node->dependencies) {
      const auto place = places.find(dependency);
      if (place == places.end()) continue;  // In another part of the graph.
      before.insert(place->second->first.begin(), place->second->first.end());
      behind.insert(&place->second->second);
    }
    const auto branch = branches.try_emplace(before).first;
    branch->second.nodes.push_back(node);
    behind.erase(&branch->second);
    branch->second.behind.merge(behind);
    places[node] = branch;
  }
  return branches;
}

// Where work goes: a stream, and those of other devices that take turns with it.
class Lane {
 public:
  // `held` while it waits for values: it would hold up what else is in the streams that all share.
  Lane(Session& session, StreamTarget target, bool held)
      : session(session), target(std::move(target)), held(held) {}
  Lane(const Lane&) = delete;
  ~Lane() {
    for (const StreamTarget& own : own_) {
      StreamDestroy op;
      op.stream = own.stream;
      static_cast<void>(own.link->Post(op));
    }
  }

  // A stream that goes with the lane, when its work is done.
  Error MakeStream(const std::shared_ptr<Link>& link, StreamTarget* made) {
    StreamCreate op;
    op.stream = NextHandle();
    op.flags = CU_STREAM_NON_BLOCKING;
    CUSPAN_RETURN_IF_FAILED(link->Post(op));
    *made = own_.emplace_back(StreamTarget{link, op.stream});
    return CUDA_SUCCESS;
  }
  // `alone`: no other work may be held up by what goes there.
  Error OnDevice(int device, bool alone, StreamTarget* there) {
    CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &there->link));
    if (!held && !alone) return there->link->OwnStream(&there->stream);
    for (const StreamTarget& own : own_) {
      if (own.link != there->link) continue;
      *there = own;
      return CUDA_SUCCESS;
    }
    return MakeStream(there->link, there);
  }

  Session& session;
  StreamTarget target;
  const bool held;

 private:
  std::vector<StreamTarget> own_;
};

Error RunIn(Lane& lane, const Nodes& order);

struct Runner {
  Lane& lane;
  const StreamTarget& target;  // Of the lane.
  Session& session = lane.session;

  Error operator()(const KernelWork& work) const {
    std::vector<void*> arguments;
    return LaunchOn(session, target, LaunchOf(work, &arguments));
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
    return order ? RunIn(lane, *order) : Error(CUDA_ERROR_INVALID_VALUE);
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
  // Nothing to do: the memory of a graph stays where it is.
  Error operator()(const AllocateWork&) const { return CUDA_SUCCESS; }
  Error operator()(const FreeWork&) const { return CUDA_SUCCESS; }
  // The device has it (device_graph.cc): what is run from here has none.
  Error operator()(const ConditionWork&) const { return CUDA_ERROR_UNKNOWN; }
};

// Only kernels, memory operations and collectives run where they were put; the rest goes by its
// pointers, arrays and events.
int DeviceOf(const GraphNode& node, const StreamTarget& target) {
  if (const auto* const batch = std::get_if<MemoryBatchWork>(&node.work)) return batch->device;
  if (const auto* const group = std::get_if<CollectiveWork>(&node.work)) return group->device;
  return std::holds_alternative<KernelWork>(node.work) ? node.device : target.link->device();
}

Error RunNode(Lane& lane, const GraphNode& node) {
  if (!node.enabled) return CUDA_SUCCESS;
  const int device = DeviceOf(node, lane.target);
  if (device == lane.target.link->device()) return std::visit(Runner{lane, lane.target}, node.work);
  StreamTarget there;
  CUSPAN_RETURN_IF_FAILED(lane.OnDevice(device, WaitsForValue(node), &there));
  CUSPAN_RETURN_IF_FAILED(lane.session.events().Order(lane.target, there));
  CUSPAN_RETURN_IF_FAILED(std::visit(Runner{lane, there}, node.work));
  return lane.session.events().Order(there, lane.target);
}

Error RunNodes(Lane& lane, std::span<GraphNode* const> nodes) {
  for (const GraphNode* node : nodes) CUSPAN_RETURN_IF_FAILED(RunNode(lane, *node));
  return CUDA_SUCCESS;
}

// In streams of their own, but for what waits for nothing: that may write what the others wait for.
Error RunApart(Lane& lane, const Branches& branches) {
  Events& events = lane.session.events();
  std::map<const Branch*, std::unique_ptr<Lane>> lanes;
  for (const auto& [waits, branch] : branches) {
    if (waits.empty()) {
      CUSPAN_RETURN_IF_FAILED(RunNodes(lane, branch.nodes));
      continue;
    }
    auto own = std::make_unique<Lane>(lane.session, lane.target, true);
    CUSPAN_RETURN_IF_FAILED(own->MakeStream(lane.target.link, &own->target));
    CUSPAN_RETURN_IF_FAILED(events.Order(lane.target, own->target));
    for (const Branch* before : branch.behind) {
      const auto known = lanes.find(before);
      if (known != lanes.end())
        CUSPAN_RETURN_IF_FAILED(events.Order(known->second->target, own->target));
    }
    CUSPAN_RETURN_IF_FAILED(RunNodes(*own, branch.nodes));
    lanes[&branch] = std::move(own);
  }
  for (const auto& [branch, own] : lanes)
    CUSPAN_RETURN_IF_FAILED(events.Order(own->target, lane.target));
  return CUDA_SUCCESS;
}

Error RunIn(Lane& lane, const Nodes& order) {
  const auto first = std::find_if(order.begin(), order.end(),
                                  [](const auto* node) { return WaitsForValue(*node); });
  if (first != order.end() && !WaitInARow(order)) return RunApart(lane, BranchesOf(order));
  CUSPAN_RETURN_IF_FAILED(RunNodes(lane, {order.begin(), first}));
  Lane held(lane.session, lane.target, true);
  return RunNodes(held, {first, order.end()});
}

}  // namespace

Error RunGraph(Session& session, const StreamTarget& target, const std::vector<GraphNode*>& order) {
  Lane lane(session, target, false);
  return RunIn(lane, order);
}

}  // namespace cuspan
