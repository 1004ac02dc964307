// Graphs kept on the device for the client, created node by node as driver graphs.
#include <utility>

#include "proxy/handlers/graph_node.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/memory_batch.h"
#include "proxy/handlers/on_worker.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

// Limit for wrong numbers; no program needs more.
constexpr std::size_t kMaxBodies = 4096;

struct GraphLaunchOp final : PostedOp {
  using PostedOp::PostedOp;
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (exec->failure != CUDA_SUCCESS) return Finish(exec->failure);
    session->files().served().KernelsMayAsk();
    const bool prints = exec->graph->prints;
    if (prints) BeginPrinting();
    Timeline::Start start = session->timeline().Begin(stream->driver);
    ShareGate* const gate = session->sharing().gate();
    ShareGate::Sample sample;
    // Kernels that wait for files would tell nothing of their work.
    if (gate != nullptr && !session->files().served().serves())
      sample = gate->BeginSample(*exec->time, *stream);
    const CUresult result = session->driver().cuGraphLaunch(exec->driver, stream->driver);
    if (result == CUDA_SUCCESS)
      session->timeline().End(std::move(start), *stream, TraceKind::kKernel, 0, 0,
                              reinterpret_cast<std::uint64_t>(stream->driver), "graph");
    FinishWork(result,
               session->sharing().SharesNow() ? gate->Predict(*exec->time, 1) : PredictedWork{});
    if (gate != nullptr && result == CUDA_SUCCESS)
      gate->EndSample(std::move(sample), exec->time, 1, stream);
    if (prints) EndPrinting();
    return SubmitResult::kSubmitted;
  }

  std::shared_ptr<GraphExec> exec;
};

Graph& WholeOf(Graph& graph) { return graph.whole != nullptr ? *graph.whole : graph; }

// Finds a graph, or a body of a conditional node, ready for another node.
Result<std::shared_ptr<Graph>> FindFree(DeviceSession& session, std::uint64_t handle) {
  Result<std::shared_ptr<Graph>> graph = session.objects().graphs.Get(handle);
  if (graph.ok() && WholeOf(**graph).tasks.load(std::memory_order_acquire) != 0)
    return Status::Invalid("graph 0x{:x} gets a node while an earlier call is in progress", handle);
  return graph;
}

// Finds a whole graph; kInvalid for a body.
Result<std::shared_ptr<Graph>> FindWhole(DeviceSession& session, std::uint64_t handle) {
  Result<std::shared_ptr<Graph>> graph = session.objects().graphs.Get(handle);
  if (graph.ok() && (*graph)->whole != nullptr)
    return Status::Invalid("graph 0x{:x} is a part of another", handle);
  return graph;
}

// Adds a node to the graph of `op`, and returns it in `node` if not null.
template <typename Op>
Status AddNode(DeviceSession& session, const Op& op, CUgraphNodeParams& parameters,
               CUgraphNode* node = nullptr) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Graph> graph, FindFree(session, op.graph));
  std::vector<CUgraphNode>& nodes = graph->nodes;
  std::vector<CUgraphNode> after;
  for (const std::uint32_t index : op.after) {
    if (index >= nodes.size())
      return Status::Invalid("a node after the unknown node {} of a graph of {} nodes", index,
                             nodes.size());
    after.push_back(nodes[index]);
  }
  Graph& whole = WholeOf(*graph);
  CUgraphNode made = nullptr;
  // After a failure, the rest of the graph is not created.
  if (whole.failure == CUDA_SUCCESS)
    whole.failure = session.faults().Check(session.driver().cuGraphAddNode(
        &made, graph->driver, after.data(), nullptr, after.size(), &parameters));
  nodes.push_back(made);
  if (node != nullptr) *node = made;
  return Status::Ok();
}

// Adds a node not allowed for the client: the graph cannot be instantiated.
template <typename Op>
Status AddFailure(DeviceSession& session, const Op& op, CUresult failure) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Graph> graph, FindFree(session, op.graph));
  Graph& whole = WholeOf(*graph);
  if (whole.failure == CUDA_SUCCESS) whole.failure = failure;
  graph->nodes.push_back(nullptr);
  return Status::Ok();
}

// Runs a task for a whole graph on the worker. work() returns the reply.
template <typename Op, typename Work>
Status RunForGraph(DeviceSession& session, const Origin& origin, std::shared_ptr<Graph> graph,
                   Work work) {
  graph->tasks.fetch_add(1, std::memory_order_relaxed);
  return OnWorker<Op>(session, origin, [graph, work] {
    const typename Op::Reply reply = work(*graph);
    graph->tasks.fetch_sub(1, std::memory_order_release);
    return reply;
  });
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const GraphCreate& op) {
  CUSPAN_RETURN_IF_ERROR(session.objects().graphs.CheckNew(op.graph));
  auto graph = std::make_shared<Graph>(session.driver());
  if (const CUresult result = session.driver().cuGraphCreate(&graph->driver, 0);
      result != CUDA_SUCCESS)
    session.faults().Posted(origin, result);
  session.objects().graphs.Add(op.graph, std::move(graph));
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin&, const GraphDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Graph> graph, FindWhole(session, op.graph));
  for (const std::uint64_t body : graph->bodies) session.objects().graphs.Remove(body);
  session.objects().graphs.Remove(op.graph);
  // Released after earlier tasks of the worker for the graph. Queued changes of its instances still
  // use its nodes.
  session.worker().Run([graph = std::move(graph)]() mutable { graph.reset(); });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const GraphCondition& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Graph> graph, FindWhole(session, op.graph));
  return RunForGraph<GraphCondition>(
      session, origin, std::move(graph), [&session, op](const Graph& whole) {
        CUgraphConditionalHandle condition = 0;
        const CUresult result =
            session.faults().Check(session.driver().cuGraphConditionalHandleCreate(
                &condition, whole.driver, CurrentContext(session), op.value, op.flags));
        return GraphCondition::Reply{result, condition};
      });
}

Status Handle(DeviceSession& session, const Origin& origin, const GraphClear& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Graph> graph, FindWhole(session, op.graph));
  for (const std::uint64_t body : graph->bodies) session.objects().graphs.Remove(body);
  graph->bodies.clear();
  ++graph->generation;
  graph->failure = CUDA_SUCCESS;
  // On the worker: after the destruction of its instances.
  return RunForGraph<GraphClear>(
      session, origin, graph, [&session, nodes = std::exchange(graph->nodes, {})](Graph& whole) {
        // Destroying a conditional node destroys its bodies. A node left in the graph would still
        // be executed.
        for (const CUgraphNode node : nodes) {
          if (node == nullptr) continue;
          const CUresult result = session.faults().Check(session.driver().cuGraphDestroyNode(node));
          if (whole.unclean == CUDA_SUCCESS) whole.unclean = result;
        }
        return GraphClear::Reply{whole.unclean};
      });
}

Status Handle(DeviceSession& session, const Origin&, const GraphKernel& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel,
                          FindKernel(session, op.kernel, op.arguments));
  const GridShape& shape = op.shape;
  std::vector<void*>& pointers = session.objects().argument_pointers;
  PointAtArguments(*kernel, op.arguments, pointers);
  CUgraphNodeParams parameters = KernelNode(*kernel, shape, pointers);
  CUgraphNode node = nullptr;
  CUSPAN_RETURN_IF_ERROR(AddNode(session, op, parameters, &node));
  if (kernel->prints) WholeOf(*session.objects().graphs.Find(op.graph)).prints = true;
  const auto set = [&](CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    Graph& whole = WholeOf(*session.objects().graphs.Find(op.graph));
    if (whole.failure == CUDA_SUCCESS)
      whole.failure =
          session.faults().Check(session.driver().cuGraphKernelNodeSetAttribute(node, id, &value));
  };
  CUlaunchAttributeValue value{};
  if (shape.cooperative) {
    value.cooperative = 1;
    set(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value);
  }
  if (shape.cluster.x != 1 || shape.cluster.y != 1 || shape.cluster.z != 1) {
    value = {};
    value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
    set(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value);
  }
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin&, const GraphCopy& op) {
  CUSPAN_ASSIGN_OR_RETURN(LocatedBox to, FindBox(session, op.to, op.extent));
  CUSPAN_ASSIGN_OR_RETURN(LocatedBox from, FindBox(session, op.from, op.extent));
  std::optional<CUgraphNodeParams> parameters = CopyNode(session, to.box, from.box);
  if (!parameters) return AddFailure(session, op, CUDA_ERROR_INVALID_VALUE);
  return AddNode(session, op, *parameters);
}

Status Handle(DeviceSession& session, const Origin&, const GraphSet& op) {
  std::optional<CUgraphNodeParams> parameters = SetNode(session, op);
  if (!parameters) return AddFailure(session, op, CUDA_ERROR_INVALID_VALUE);
  return AddNode(session, op, *parameters);
}

Status Handle(DeviceSession& session, const Origin&, const GraphMemoryBatch& op) {
  CUSPAN_ASSIGN_OR_RETURN(MemoryOperations operations, ReadOperations(op.operations));
  if (!MayTouch(session, operations)) return AddFailure(session, op, CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  parameters.memOp.ctx = CurrentContext(session);
  parameters.memOp.count = static_cast<unsigned>(operations.size());
  parameters.memOp.paramArray = operations.data();
  return AddNode(session, op, parameters);
}

Status Handle(DeviceSession& session, const Origin&, const GraphJoin& op) {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return AddNode(session, op, parameters);
}

Status Handle(DeviceSession& session, const Origin&, const GraphBranch& op) {
  if (op.bodies.empty() || op.bodies.size() > kMaxBodies)
    return Status::Invalid("a conditional node with {} bodies", op.bodies.size());
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = op.condition;
  parameters.conditional.type = static_cast<CUgraphConditionalNodeType>(op.kind);
  parameters.conditional.size = static_cast<unsigned>(op.bodies.size());
  parameters.conditional.ctx = CurrentContext(session);
  CUgraphNode node = nullptr;
  CUSPAN_RETURN_IF_ERROR(AddNode(session, op, parameters, &node));
  std::shared_ptr<Graph> graph = session.objects().graphs.Find(op.graph);
  std::shared_ptr<Graph> whole = graph->whole != nullptr ? graph->whole : graph;
  for (std::size_t i = 0; i < op.bodies.size(); ++i) {
    CUSPAN_RETURN_IF_ERROR(session.objects().graphs.CheckNew(op.bodies[i]));
    auto body = std::make_shared<Graph>();
    body->whole = whole;
    if (node != nullptr) body->driver = parameters.conditional.phGraph_out[i];
    session.objects().graphs.Add(op.bodies[i], std::move(body));
    whole->bodies.push_back(op.bodies[i]);
  }
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const GraphInstantiate& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Graph> graph, FindWhole(session, op.graph));
  CUSPAN_RETURN_IF_ERROR(session.objects().executors.CheckNew(op.exec));
  const CUresult failure = graph->failure;
  auto made = std::make_shared<GraphExec>(session.driver(), graph, graph->generation);
  return RunForGraph<GraphInstantiate>(
      session, origin, std::move(graph),
      [&session, exec = op.exec, made, failure](const Graph& whole) {
        CUresult result = failure != CUDA_SUCCESS ? failure : whole.unclean;
        if (result == CUDA_SUCCESS)
          result = session.faults().Check(
              session.driver().cuGraphInstantiate(&made->driver, whole.driver, 0));
        if (result == CUDA_SUCCESS) session.objects().executors.Add(exec, made);
        return GraphInstantiate::Reply{result};
      });
}

Status Handle(DeviceSession& session, const Origin& origin, const GraphLaunch& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  GraphLaunchOp launch(session, origin, std::move(stream));
  CUSPAN_ASSIGN_OR_RETURN(launch.exec, session.objects().executors.Get(op.exec));
  return Queue(session, std::move(launch));
}

Status Handle(DeviceSession& session, const Origin&, const GraphExecDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<GraphExec> exec,
                          session.objects().executors.Take(op.exec));
  // On the worker: the driver may block.
  session.worker().Run([exec = std::move(exec)]() mutable { exec.reset(); });
  return Status::Ok();
}

}  // namespace cuspan::proxy
