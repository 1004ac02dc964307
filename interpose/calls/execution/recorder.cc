#include "interpose/calls/execution/recorder.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "interpose/calls/launch.h"
#include "interpose/calls/memory_batch.h"
#include "interpose/client/base/handles.h"

namespace cuspan {
namespace {

// Maximum dependencies of a node; they fit a frame with the largest arguments.
constexpr std::size_t kMaxAfter = 2048;

bool IsNothing(const BoxCopy& copy) {
  return copy.extent.width == 0 || copy.extent.rows == 0 || copy.extent.planes == 0;
}

// Fills in fields common to GraphSet and GraphChangeSet.
template <typename Op>
void Describe(const CUDA_MEMSET_NODE_PARAMS& set, Op* op) {
  op->destination = set.dst;
  op->pitch = set.height == 1 ? std::uint64_t{set.width} * set.elementSize : set.pitch;
  op->value = set.value;
  op->element_bytes = static_cast<std::uint8_t>(set.elementSize);
  op->width = set.width;
  op->rows = set.height;
}

// Records one graph or body at the proxy.
class Recorder {
 public:
  Recorder(Session& session, ContextConnection& connection, std::uint64_t graph,
           RecordedPositions* positions)
      : session_(session), connection_(connection), graph_(graph), positions_(*positions) {}

  // Records nodes in topological order. All of them depend on `entry`.
  Error Record(const std::vector<GraphNode*>& order, const std::vector<std::uint32_t>& entry) {
    for (const GraphNode* node : order) {
      std::vector<std::uint32_t> after = entry;
      for (const GraphNode* dependency : node->dependencies)
        if (const auto known = positions_.find(dependency); known != positions_.end())
          after.push_back(known->second);
      CUSPAN_RETURN_IF_FAILED(ComeAfter(std::move(after)));
      if (node->enabled)
        CUSPAN_RETURN_IF_FAILED(std::visit(*this, node->work));
      else
        CUSPAN_RETURN_IF_FAILED((*this)(EmptyWork{}));
      positions_[node] = count_ - 1;
    }
    return CUDA_SUCCESS;
  }

  Error operator()(const KernelWork& work) {
    std::vector<void*> arguments;
    ++count_;
    return RecordLaunch(session_, connection_, LaunchOf(work, &arguments), Node<GraphKernel>());
  }
  Error operator()(const CopyWork& work) {
    BoxCopy copy;
    CUSPAN_RETURN_IF_FAILED(DescribeBox(session_, work.box, true, &copy));
    if (IsNothing(copy)) return (*this)(EmptyWork{});
    auto op = AsNode(copy);
    op.graph = graph_;
    op.after = after_;
    return Post(op);
  }
  Error operator()(const SetWork& work) {
    const CUDA_MEMSET_NODE_PARAMS& set = work.parameters;
    if (set.width == 0 || set.height == 0) return (*this)(EmptyWork{});
    auto op = Node<GraphSet>();
    Describe(set, &op);
    return Post(op);
  }
  Error operator()(const ChildWork& work) {
    const auto order = InOrder(*work.graph);
    if (!order) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<std::uint32_t> entry = after_;
    CUSPAN_RETURN_IF_FAILED(Record(*order, entry));
    // It ends with its leaves: no other node depends on them.
    std::unordered_set<const GraphNode*> leaves(order->begin(), order->end());
    for (const GraphNode* node : *order)
      for (const GraphNode* dependency : node->dependencies) leaves.erase(dependency);
    std::vector<std::uint32_t> after = entry;
    for (const GraphNode* node : leaves) after.push_back(positions_.at(node));
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
  Error operator()(const CollectiveWork&) {
    return NotSupported("a collective in the body of a conditional node");
  }
  // Not allowed by CUDA in a body; elsewhere the client runs them.
  Error operator()(const HostWork&) { return CUDA_ERROR_INVALID_VALUE; }
  Error operator()(const WaitWork&) { return CUDA_ERROR_INVALID_VALUE; }
  Error operator()(const RecordWork&) { return CUDA_ERROR_INVALID_VALUE; }

 private:
  // Sets the dependencies of the next node. If a frame cannot hold them, empty nodes join them in
  // groups.
  Error ComeAfter(std::vector<std::uint32_t> nodes) {
    while (nodes.size() > kMaxAfter) {
      std::vector<std::uint32_t> joins;
      for (std::size_t first = 0; first < nodes.size(); first += kMaxAfter) {
        const std::size_t end = std::min(first + kMaxAfter, nodes.size());
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
    return connection_.Send(op);
  }
  Error RecordBody(const Graph& body, std::uint64_t handle) {
    const auto order = InOrder(body);
    if (!order) return CUDA_ERROR_INVALID_VALUE;
    CUSPAN_RETURN_IF_FAILED(CheckBody(body));
    RecordedPositions positions;
    return Recorder(session_, connection_, handle, &positions).Record(*order, {});
  }
  // Also checks child graphs.
  Error CheckBody(const Graph& body) const {
    const OnDevice on_device(session_, connection_);
    for (const auto& node : body.nodes) {
      if (const auto* const child = std::get_if<ChildWork>(&node->work))
        CUSPAN_RETURN_IF_FAILED(CheckBody(*child->graph));
      if (std::holds_alternative<AllocateWork>(node->work) ||
          std::holds_alternative<FreeWork>(node->work) ||
          std::holds_alternative<MemoryBatchWork>(node->work))
        return CUDA_ERROR_INVALID_VALUE;  // Not allowed either.
      if (std::holds_alternative<CopyWork>(node->work) && !on_device(*node))
        return NotSupported(
            "a memcpy from or to memory outside the device in the body of a conditional node");
      if (std::holds_alternative<SetWork>(node->work) && !on_device(*node))
        return NotSupported(
            "a memset of memory outside the device in the body of a conditional node");
      if (std::holds_alternative<KernelWork>(node->work) && !on_device(*node))
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  }

  Session& session_;
  ContextConnection& connection_;
  const std::uint64_t graph_;
  std::uint32_t count_ = 0;  // Nodes posted.
  RecordedPositions& positions_;
  std::vector<std::uint32_t> after_;  // Dependencies of the node being recorded.
};

bool AreSame(const Dim3& one, const Dim3& other) {
  return one.x == other.x && one.y == other.y && one.z == other.z;
}
bool AreSame(const BoxEnd& one, const BoxEnd& other) {
  return one.array == other.array && one.pointer == other.pointer && one.pitch == other.pitch &&
         one.plane_rows == other.plane_rows && one.x == other.x && one.y == other.y &&
         one.z == other.z;
}

// The driver accepts other sizes, arguments and functions, but not other attributes.
Renewal RenewalOf(const KernelWork& before, const KernelWork& after) {
  if (before.cooperative != after.cooperative || !AreSame(before.cluster, after.cluster))
    return Renewal::kAllAnew;
  const bool same = before.function == after.function && AreSame(before.grid, after.grid) &&
                    AreSame(before.block, after.block) &&
                    before.dynamic_shared == after.dynamic_shared &&
                    before.arguments == after.arguments;
  return same ? Renewal::kNone : Renewal::kChange;
}
// The driver accepts changed copies and sets of a single row only.
bool IsRow(const CopyWork& work) {
  const BoxRequest& box = work.box;
  return box.destination.array == 0 && box.source.array == 0 && box.extent.width != 0 &&
         box.extent.rows == 1 && box.extent.planes == 1;
}
bool IsRow(const SetWork& work) {
  return work.parameters.width != 0 && work.parameters.height == 1;
}
Renewal RenewalOf(const CopyWork& before, const CopyWork& after) {
  const BoxRequest& one = before.box;
  const BoxRequest& other = after.box;
  const bool same = AreSame(one.destination, other.destination) &&
                    AreSame(one.source, other.source) && one.extent.width == other.extent.width &&
                    one.extent.rows == other.extent.rows &&
                    one.extent.planes == other.extent.planes && one.sides == other.sides &&
                    one.destination_device == other.destination_device &&
                    one.source_device == other.source_device;
  if (same) return Renewal::kNone;
  return IsRow(before) && IsRow(after) ? Renewal::kChange : Renewal::kAllAnew;
}
Renewal RenewalOf(const SetWork& before, const SetWork& after) {
  const CUDA_MEMSET_NODE_PARAMS& one = before.parameters;
  const CUDA_MEMSET_NODE_PARAMS& other = after.parameters;
  const bool same = one.dst == other.dst && one.pitch == other.pitch && one.value == other.value &&
                    one.elementSize == other.elementSize && one.width == other.width &&
                    one.height == other.height;
  if (same) return Renewal::kNone;
  return IsRow(before) && IsRow(after) ? Renewal::kChange : Renewal::kAllAnew;
}
// They do nothing on the device.
Renewal RenewalOf(const EmptyWork&, const EmptyWork&) { return Renewal::kNone; }
Renewal RenewalOf(const AllocateWork&, const AllocateWork&) { return Renewal::kNone; }
Renewal RenewalOf(const FreeWork&, const FreeWork&) { return Renewal::kNone; }

}  // namespace

bool OnDevice::operator()(const CopyWork& work) const {
  BoxCopy copy;
  if (DescribeBox(session_, work.box, true, &copy).failed()) return false;
  // Kernels use another copy of a managed variable; the client keeps it equal.
  const ManagedVariables& variables = session_.managed_variables();
  if (variables.Contains(NumberOf(copy.destination.pointer)) ||
      variables.Contains(NumberOf(copy.source.pointer)))
    return false;
  return IsNothing(copy) || BothOn(connection_, copy);
}

bool OnDevice::operator()(const SetWork& work) const {
  const PointerKind kind =
      session_.addresses().Classify(HandleOf<const void*>(work.parameters.dst));
  return kind.kind == PointerKind::kDevice && kind.device == connection_.device();
}

bool OnDevice::operator()(const ChildWork& work) const {
  return std::all_of(work.graph->nodes.begin(), work.graph->nodes.end(),
                     [&](const auto& node) { return (*this)(*node); });
}

Error RecordNodes(Session& session, ContextConnection& connection, std::uint64_t graph,
                  const std::vector<GraphNode*>& order, RecordedPositions* positions) {
  return Recorder(session, connection, graph, positions).Record(order, {});
}

Renewal RenewalOf(const Work& before, const Work& after) {
  return std::visit(
      [](const auto& one, const auto& other) {
        if constexpr (requires { RenewalOf(one, other); } &&
                      std::is_same_v<decltype(one), decltype(other)>)
          return RenewalOf(one, other);
        else
          return Renewal::kAllAnew;
      },
      before, after);
}

Error PostChange(Session& session, const StreamTarget& there, std::uint64_t exec,
                 std::uint32_t position, const GraphNode& node) {
  const auto to_node = [&](auto op) {
    op.stream = there.stream;
    op.exec = exec;
    op.node = position;
    return op;
  };
  ContextConnection& connection = *there.connection;
  if (const auto* const kernel = std::get_if<KernelWork>(&node.work)) {
    std::vector<void*> arguments;
    return RecordLaunch(session, connection, LaunchOf(*kernel, &arguments),
                        to_node(GraphChangeKernel{}));
  }
  if (const auto* const copy = std::get_if<CopyWork>(&node.work)) {
    BoxCopy box;
    CUSPAN_RETURN_IF_FAILED(DescribeBox(session, copy->box, true, &box));
    const GraphCopy described = AsNode(box);
    auto op = to_node(GraphChangeCopy{});
    op.to = described.to;
    op.from = described.from;
    op.extent = described.extent;
    return connection.Send(op);
  }
  auto op = to_node(GraphChangeSet{});
  Describe(std::get<SetWork>(node.work).parameters, &op);
  return connection.Send(op);
}

}  // namespace cuspan
