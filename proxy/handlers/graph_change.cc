// Changes of nodes of instantiated graphs, in stream order. Earlier launches are not affected.
#include <utility>

#include "proxy/handlers/graph_node.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

struct ChangeOp : PostedOp {
  using PostedOp::PostedOp;

  // Errors of the driver are returned by later launches: the unchanged work must not run.
  SubmitResult Change(CUgraphNodeParams* parameters) CUSPAN_REQUIRES(receiving_thread) {
    if (exec->failure == CUDA_SUCCESS) exec->failure = TryChange(parameters);
    return Finish(CUDA_SUCCESS, 0);
  }
  CUresult TryChange(CUgraphNodeParams* parameters) {
    const Graph& graph = *exec->graph;
    if (parameters == nullptr || graph.generation != exec->generation ||
        node >= graph.nodes.size() || graph.tasks.load(std::memory_order_acquire) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return session->faults().Check(
        session->driver().cuGraphExecNodeSetParams(exec->driver, graph.nodes[node], parameters));
  }

  std::shared_ptr<GraphExec> exec;
  std::uint32_t node = 0;
};

struct ChangeKernelOp final : ChangeOp {
  using ChangeOp::ChangeOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    std::vector<void*>& pointers = session->objects().argument_pointers;
    PointAtArguments(*call.kernel, call.arguments, pointers);
    CUgraphNodeParams parameters = KernelNode(*call.kernel, call.shape, pointers);
    return Change(&parameters);
  }
  std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) override { return call.Keep(); }

  KernelCall call;
};

struct ChangeCopyOp final : ChangeOp {
  using ChangeOp::ChangeOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    std::optional<CUgraphNodeParams> parameters = CopyNode(*session, to.box, from.box);
    return Change(parameters ? &*parameters : nullptr);
  }

  LocatedBox to, from;
};

struct ChangeSetOp final : ChangeOp {
  using ChangeOp::ChangeOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    std::optional<CUgraphNodeParams> parameters = SetNode(*session, set);
    return Change(parameters ? &*parameters : nullptr);
  }

  GraphChangeSet set;
};

template <typename Made, typename Op>
Result<Made> MakeChange(DeviceSession& session, const Origin& origin, const Op& op)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  Made change(session, origin, std::move(stream));
  CUSPAN_ASSIGN_OR_RETURN(change.exec, session.objects().executors.Get(op.exec));
  change.node = op.node;
  return change;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const GraphChangeKernel& op) {
  CUSPAN_ASSIGN_OR_RETURN(ChangeKernelOp change, MakeChange<ChangeKernelOp>(session, origin, op));
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel,
                          FindKernel(session, op.kernel, op.arguments));
  if (kernel->prints) change.exec->graph->prints = true;
  change.call = {std::move(kernel), op.shape, op.arguments, {}};
  return Queue(session, std::move(change));
}

Status Handle(DeviceSession& session, const Origin& origin, const GraphChangeCopy& op) {
  CUSPAN_ASSIGN_OR_RETURN(ChangeCopyOp change, MakeChange<ChangeCopyOp>(session, origin, op));
  CUSPAN_ASSIGN_OR_RETURN(change.to, FindBox(session, op.to, op.extent));
  CUSPAN_ASSIGN_OR_RETURN(change.from, FindBox(session, op.from, op.extent));
  return Queue(session, std::move(change));
}

Status Handle(DeviceSession& session, const Origin& origin, const GraphChangeSet& op) {
  CUSPAN_ASSIGN_OR_RETURN(ChangeSetOp change, MakeChange<ChangeSetOp>(session, origin, op));
  change.set = op;
  return Queue(session, std::move(change));
}

}  // namespace cuspan::proxy
