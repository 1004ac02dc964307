#include "interpose/calls/graph/device_graph.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "interpose/calls/launch.h"
#include "interpose/calls/memory_batch.h"
#include "interpose/client/handles.h"

namespace cuspan {
namespace {

using NodeSet = std::unordered_set<const GraphNode*>;

// With the largest arguments of a kernel they fit a frame.
constexpr std::size_t kMostAfter = 2048;

bool IsCondition(const GraphNode& node) { return std::holds_alternative<ConditionWork>(node.work); }

// Also in graphs inside.
bool HasKernelOf(const GraphNode& node, int device) {
  if (const auto* const child = std::get_if<ChildWork>(&node.work)) {
    const auto& nodes = child->graph->nodes;
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const auto& inner) { return HasKernelOf(*inner, device); });
  }
  return std::holds_alternative<KernelWork>(node.work) && node.device == device;
}

// Whether the device of `link` can do a node by itself.
class OnDevice {
 public:
  OnDevice(Session& session, const Link& link) : session_(session), link_(link) {}

  bool operator()(const GraphNode& node) const {
    // Only kernels and memory operations run where they were put; the rest goes by its pointers and
    // arrays.
    if (std::holds_alternative<KernelWork>(node.work)) return node.device == link_.device();
    return std::visit(*this, node.work);
  }
  bool operator()(const KernelWork&) const { return true; }
  bool operator()(const CopyWork& work) const {
    BoxCopy copy;
    if (DescribeBox(session_, work.box, true, &copy).failed()) return false;
    return IsNothing(copy) || BothOn(link_, copy);
  }
  bool operator()(const SetWork& work) const {
    const PointerKind kind =
        session_.addresses().Classify(HandleOf<const void*>(work.parameters.dst));
    return kind.kind == PointerKind::kDevice && kind.device == link_.device();
  }
  bool operator()(const HostWork&) const { return false; }
  bool operator()(const ChildWork& work) const {
    return std::all_of(work.graph->nodes.begin(), work.graph->nodes.end(),
                       [&](const auto& node) { return (*this)(*node); });
  }
  bool operator()(const EmptyWork&) const { return true; }
  bool operator()(const WaitWork&) const { return false; }
  bool operator()(const RecordWork&) const { return false; }
  bool operator()(const AllocateWork&) const { return true; }
  bool operator()(const FreeWork&) const { return true; }
  bool operator()(const MemoryBatchWork& work) const { return work.device == link_.device(); }
  bool operator()(const ConditionWork&) const { return true; }

  static bool IsNothing(const BoxCopy& copy) {
    return copy.extent.width == 0 || copy.extent.rows == 0 || copy.extent.planes == 0;
  }

 private:
  Session& session_;
  const Link& link_;
};

// All nodes that come before those that `start` names, with these.
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

// Records one graph or body at the proxy.
class Recorder {
 public:
  Recorder(Session& session, Link& link, std::uint64_t graph)
      : session_(session), link_(link), graph_(graph) {}

  // The nodes, each behind those that it depends on; `entry` come before the first ones.
  Error Record(const std::vector<GraphNode*>& order, const std::vector<std::uint32_t>& entry) {
    for (const GraphNode* node : order) {
      std::vector<std::uint32_t> after = entry;
      for (const GraphNode* dependency : node->dependencies)
        if (const auto known = places_.find(dependency); known != places_.end())
          after.push_back(known->second);
      CUSPAN_RETURN_IF_FAILED(ComeAfter(std::move(after)));
      if (node->enabled)
        CUSPAN_RETURN_IF_FAILED(std::visit(*this, node->work));
      else
        CUSPAN_RETURN_IF_FAILED((*this)(EmptyWork{}));
      places_[node] = count_ - 1;
    }
    return CUDA_SUCCESS;
  }

  Error operator()(const KernelWork& work) {
    std::vector<void*> arguments;
    ++count_;
    return RecordLaunch(session_, link_, LaunchOf(work, &arguments), Node<GraphKernel>());
  }
  Error operator()(const CopyWork& work) {
    BoxCopy copy;
    CUSPAN_RETURN_IF_FAILED(DescribeBox(session_, work.box, true, &copy));
    if (OnDevice::IsNothing(copy)) return (*this)(EmptyWork{});
    auto op = AsNode(copy);
    op.graph = graph_;
    op.after = after_;
    return Post(op);
  }
  Error operator()(const SetWork& work) {
    const CUDA_MEMSET_NODE_PARAMS& set = work.parameters;
    if (set.width == 0 || set.height == 0) return (*this)(EmptyWork{});
    auto op = Node<GraphSet>();
    op.destination = set.dst;
    op.pitch = set.height == 1 ? std::uint64_t{set.width} * set.elementSize : set.pitch;
    op.value = set.value;
    op.element_bytes = static_cast<std::uint8_t>(set.elementSize);
    op.width = set.width;
    op.rows = set.height;
    return Post(op);
  }
  Error operator()(const ChildWork& work) {
    const auto order = InOrder(*work.graph);
    if (!order) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<std::uint32_t> entry = after_;
    CUSPAN_RETURN_IF_FAILED(Record(*order, entry));
    // It ends with those that no other waits for.
    NodeSet leaves(order->begin(), order->end());
    for (const GraphNode* node : *order)
      for (const GraphNode* dependency : node->dependencies) leaves.erase(dependency);
    std::vector<std::uint32_t> after = entry;
    for (const GraphNode* node : leaves) after.push_back(places_.at(node));
    CUSPAN_RETURN_IF_FAILED(ComeAfter(std::move(after)));
    return (*this)(EmptyWork{});
  }
  Error operator()(const MemoryBatchWork& work) {
    auto op = Node<GraphMemoryBatch>();
    op.operations = OperationsOf(work);
    return Post(op);
  }
  Error operator()(const EmptyWork&) { return Post(Node<GraphJoin>()); }
  Error operator()(const AllocateWork&) { return (*this)(EmptyWork{}); }
  Error operator()(const FreeWork&) { return (*this)(EmptyWork{}); }
  Error operator()(const ConditionWork& work) {
    auto op = Node<GraphBranch>();
    op.condition = work.condition;
    op.kind = work.kind;
    for (std::size_t i = 0; i < work.bodies.size(); ++i) op.bodies.push_back(NextHandle());
    CUSPAN_RETURN_IF_FAILED(Post(op));
    for (std::size_t i = 0; i < work.bodies.size(); ++i)
      CUSPAN_RETURN_IF_FAILED(RecordBody(*work.bodies[i], op.bodies[i]));
    return CUDA_SUCCESS;
  }
  // CUDA lets none of these into a body; elsewhere they are left to the client.
  Error operator()(const HostWork&) { return CUDA_ERROR_INVALID_VALUE; }
  Error operator()(const WaitWork&) { return CUDA_ERROR_INVALID_VALUE; }
  Error operator()(const RecordWork&) { return CUDA_ERROR_INVALID_VALUE; }

 private:
  // The next node comes after these: where a frame does not hold their numbers, by nodes that join
  // some each.
  Error ComeAfter(std::vector<std::uint32_t> nodes) {
    while (nodes.size() > kMostAfter) {
      std::vector<std::uint32_t> joins;
      for (std::size_t first = 0; first < nodes.size(); first += kMostAfter) {
        const std::size_t end = std::min(first + kMostAfter, nodes.size());
        after_.assign(nodes.begin() + static_cast<std::ptrdiff_t>(first),
                      nodes.begin() + static_cast<std::ptrdiff_t>(end));
        CUSPAN_RETURN_IF_FAILED((*this)(EmptyWork{}));
        joins.push_back(count_ - 1);
      }
      nodes = std::move(joins);
    }
    after_ = std::move(nodes);
    return CUDA_SUCCESS;
  }
  template <typename Op>
  Op Node() const {
    Op op;
    op.graph = graph_;
    op.after = after_;
    return op;
  }
  template <typename Op>
  Error Post(const Op& op) {
    ++count_;
    return link_.Send(op);
  }
  Error RecordBody(const Graph& body, std::uint64_t handle) {
    const auto order = InOrder(body);
    if (!order) return CUDA_ERROR_INVALID_VALUE;
    CUSPAN_RETURN_IF_FAILED(CheckBody(body));
    return Recorder(session_, link_, handle).Record(*order, {});
  }
  // Also of the graphs inside.
  Error CheckBody(const Graph& body) const {
    const OnDevice on_device(session_, link_);
    for (const auto& node : body.nodes) {
      if (const auto* const child = std::get_if<ChildWork>(&node->work))
        CUSPAN_RETURN_IF_FAILED(CheckBody(*child->graph));
      if (std::holds_alternative<AllocateWork>(node->work) ||
          std::holds_alternative<FreeWork>(node->work) ||
          std::holds_alternative<MemoryBatchWork>(node->work))
        return CUDA_ERROR_INVALID_VALUE;  // Nor these.
      if (std::holds_alternative<CopyWork>(node->work) && !on_device(*node))
        return NotSupported(
            "a memcpy in the body of a conditional node that is not within the memory of its "
            "device");
      if (std::holds_alternative<SetWork>(node->work) && !on_device(*node))
        return NotSupported(
            "a memset in the body of a conditional node that is not in the memory of its device");
      if (std::holds_alternative<KernelWork>(node->work) && !on_device(*node))
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  }

  Session& session_;
  Link& link_;
  const std::uint64_t graph_;
  std::uint32_t count_ = 0;  // Nodes that were posted.
  std::unordered_map<const GraphNode*, std::uint32_t> places_;
  std::vector<std::uint32_t> after_;  // What the node that is recorded now comes after.
};

}  // namespace

DeviceGraphExec::~DeviceGraphExec() {
  Session* const session = Session::IfStarted();
  std::shared_ptr<Link> link;
  if (session == nullptr || graph_->FindLink(*session, &link).failed()) return;
  GraphExecDestroy op;
  op.exec = handle_;
  static_cast<void>(link->Send(op));
}

Error DeviceGraphExec::Launch(Session& session, const StreamTarget& target) const {
  StreamTarget there;
  CUSPAN_RETURN_IF_FAILED(graph_->FindLink(session, &there.link));
  GraphLaunch op;
  op.exec = handle_;
  op.stream = target.stream;
  if (there.link == target.link) {
    CUSPAN_RETURN_IF_FAILED(there.link->Post(op));
    return graph_->NoteLaunch(session, target);
  }
  CUSPAN_RETURN_IF_FAILED(there.link->OwnStream(&there.stream));
  op.stream = there.stream;
  CUSPAN_RETURN_IF_FAILED(session.events().Order(target, there));
  CUSPAN_RETURN_IF_FAILED(there.link->Post(op));
  CUSPAN_RETURN_IF_FAILED(graph_->NoteLaunch(session, there));
  return session.events().Order(there, target);
}

Error DeviceGraph::Create(Session& session, const Graph& whole,
                          std::shared_ptr<DeviceGraph>* made) {
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&link));
  GraphCreate op;
  op.graph = NextHandle();
  CUSPAN_RETURN_IF_FAILED(link->Send(op));
  made->reset(new DeviceGraph(link->device(), link->number(), op.graph, whole.handle));
  return CUDA_SUCCESS;
}

DeviceGraph::~DeviceGraph() {
  Session* const session = Session::IfStarted();
  std::shared_ptr<Link> link;
  if (session == nullptr) return;
  if (launched_ != 0) static_cast<void>(session->events().Destroy(launched_));
  if (FindLink(*session, &link).failed()) return;
  GraphDestroy op;
  op.graph = handle_;
  static_cast<void>(link->Send(op));
}

Error DeviceGraph::FindLink(Session& session, std::shared_ptr<Link>* link) const {
  *link = session.devices().LinkNumbered(link_number_);
  return *link != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Error DeviceGraph::AddCondition(Session& session, unsigned value, unsigned flags,
                                std::uint64_t* number) {
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(FindLink(session, &link));
  GraphCondition op;
  op.graph = handle_;
  op.value = value;
  op.flags = flags;
  GraphCondition::Reply reply;
  CUSPAN_RETURN_IF_FAILED(link->Call(op, &reply));
  conditions_.push_back({reply.condition, value, flags});
  *number = reply.condition;
  return CUDA_SUCCESS;
}

Error DeviceGraph::NoteLaunch(Session& session, const StreamTarget& target) {
  if (launched_ == 0)
    CUSPAN_RETURN_IF_FAILED(
        session.events().CreateOn(target.link, CU_EVENT_DISABLE_TIMING, &launched_));
  return session.events().Record(launched_, target);
}

Error DeviceGraph::MakeReady(Session& session) {
  const MutexLock lock(renewing_);
  if (!exec_.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  if (ready_) return CUDA_SUCCESS;
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(FindLink(session, &link));
  // The driver has one executable graph at a time, and the one before goes with its last launch.
  if (launched_ != 0) CUSPAN_RETURN_IF_FAILED(session.events().Synchronize(launched_));
  GraphClear clear;
  clear.graph = handle_;
  GraphClear::Reply reply;
  CUSPAN_RETURN_IF_FAILED(link->Call(clear, &reply));
  ready_ = true;
  return CUDA_SUCCESS;
}

Error DeviceGraph::Build(Session& session, Link& link, const std::vector<GraphNode*>& order,
                         std::shared_ptr<DeviceGraphExec>* made) {
  ready_ = false;
  CUSPAN_RETURN_IF_FAILED(Recorder(session, link, handle_).Record(order, {}));
  GraphInstantiate op;
  op.graph = handle_;
  op.exec = NextHandle();
  GraphInstantiate::Reply reply;
  CUSPAN_RETURN_IF_FAILED(link.Call(op, &reply));
  *made = std::make_shared<DeviceGraphExec>(shared_from_this(), op.exec);
  return CUDA_SUCCESS;
}

Error DeviceGraph::Instantiate(Session& session, GraphExec& exec) {
  // Another thread was faster.
  if (!ready_ || !exec_.expired()) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(FindLink(session, &link));
  std::unordered_set<std::uint64_t> used;
  ForEachCondition(*exec.graph, [&](const ConditionWork& work) { used.insert(work.condition); });
  for (const Condition& condition : conditions_)
    if (!used.contains(condition.number))
      return exec.stale ? NotSupported(
                              "updating an executable graph after its graph was given another "
                              "conditional node")
                        : Error(CUDA_ERROR_INVALID_VALUE);
  const auto order = InOrder(*exec.graph);
  if (!order) return CUDA_ERROR_INVALID_VALUE;

  const OnDevice on_device(session, *link);
  const NodeSet leading = WithAllBefore(*order, IsCondition);
  const NodeSet before = WithAllBefore(
      *order, [&](const GraphNode& node) { return leading.contains(&node) && !on_device(node); });
  exec.order.clear();
  exec.behind.clear();
  std::vector<GraphNode*> own;
  NodeSet behind;
  for (GraphNode* node : *order) {
    if (!before.contains(node)) {
      // What the device can go on with is its own, too: such a kernel may set a condition as well.
      const bool follows = std::any_of(node->dependencies.begin(), node->dependencies.end(),
                                       [&](const GraphNode* one) { return behind.contains(one); });
      if (!follows && on_device(*node)) {
        own.push_back(node);
      } else {
        behind.insert(node);
        exec.behind.push_back(node);
      }
      continue;
    }
    // The kernel may set a condition, which it can do in the device's graph alone.
    if (IsCondition(*node) || HasKernelOf(*node, device_)) {
      return NotSupported(
          "a graph with host nodes, or work of another device, between a kernel and a conditional "
          "node");
    }
    exec.order.push_back(node);
  }
  CUSPAN_RETURN_IF_FAILED(Build(session, *link, own, &exec.on_device));
  exec_ = exec.on_device;
  exec.stale = false;
  return CUDA_SUCCESS;
}

}  // namespace cuspan
