#include "tests/unit/proxy/loopback/fake_graphs.h"

#include <cstdlib>
#include <utility>
#include <vector>

namespace cuspan::proxy {

struct FakeGraphs::Node {
  std::vector<CUgraph> bodies;
};

struct FakeGraphs::Graph {
  std::map<CUgraphNode, std::unique_ptr<Node>> nodes;
};

namespace {

FakeGraphs* graphs = nullptr;

}  // namespace

struct FakeGraphCalls {
  static CUgraph NewGraph() {
    auto graph = std::make_unique<FakeGraphs::Graph>();
    FakeGraphs::Graph* const place = graph.get();
    graphs->graphs_[place] = std::move(graph);
    return reinterpret_cast<CUgraph>(place);
  }
  static FakeGraphs::Graph& GraphOf(CUgraph graph) {
    const auto known = graphs->graphs_.find(reinterpret_cast<FakeGraphs::Graph*>(graph));
    if (known == graphs->graphs_.end()) std::abort();
    return *known->second;
  }
  static void EraseGraph(CUgraph graph) {
    for (const auto& [handle, node] : GraphOf(graph).nodes)
      for (CUgraph body : node->bodies) EraseGraph(body);
    graphs->graphs_.erase(reinterpret_cast<FakeGraphs::Graph*>(graph));
  }
  static CUresult CreateGraph(CUgraph* graph, unsigned) {
    std::scoped_lock lock(graphs->mutex_);
    *graph = NewGraph();
    return graphs->refusal_("cuGraphCreate");
  }
  static CUresult DestroyGraph(CUgraph graph) {
    std::scoped_lock lock(graphs->mutex_);
    EraseGraph(graph);
    return CUDA_SUCCESS;
  }
  static CUresult CreateCondition(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext,
                                  unsigned, unsigned flags) {
    std::scoped_lock lock(graphs->mutex_);
    GraphOf(graph);
    *handle = ++graphs->conditions_;
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  static CUresult AddNode(CUgraphNode* node, CUgraph handle, const CUgraphNode* after,
                          const CUgraphEdgeData*, std::size_t count,
                          CUgraphNodeParams* parameters) {
    std::scoped_lock lock(graphs->mutex_);
    FakeGraphs::Graph& graph = GraphOf(handle);
    for (std::size_t i = 0; i < count; ++i)
      if (!graph.nodes.contains(after[i])) std::abort();
    if (const CUresult refusal = graphs->refusal_("cuGraphAddNode"); refusal != CUDA_SUCCESS)
      return refusal;
    auto made = std::make_unique<FakeGraphs::Node>();
    if (parameters->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
      const auto& [context, operations, array, flags] = parameters->memOp;
      const CUresult result = graphs->batch_({context, operations, array, flags});
      if (result != CUDA_SUCCESS) return result;
    }
    if (parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      if (parameters->conditional.handle == 0) return CUDA_ERROR_INVALID_VALUE;
      for (unsigned i = 0; i < parameters->conditional.size; ++i)
        made->bodies.push_back(NewGraph());
      parameters->conditional.phGraph_out = made->bodies.data();
    }
    *node = reinterpret_cast<CUgraphNode>(made.get());
    graph.nodes[*node] = std::move(made);
    return CUDA_SUCCESS;
  }
  static CUresult DestroyNode(CUgraphNode node) {
    std::scoped_lock lock(graphs->mutex_);
    for (const auto& [place, graph] : graphs->graphs_) {
      const auto known = graph->nodes.find(node);
      if (known == graph->nodes.end()) continue;
      const std::unique_ptr<FakeGraphs::Node> gone = std::move(known->second);
      graph->nodes.erase(known);
      for (CUgraph body : gone->bodies) EraseGraph(body);
      return CUDA_SUCCESS;
    }
    std::abort();
  }
  static CUresult Instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
    std::scoped_lock lock(graphs->mutex_);
    GraphOf(graph);
    auto made = std::make_unique<int>();
    *exec = reinterpret_cast<CUgraphExec>(made.get());
    graphs->executors_[made.get()] = std::move(made);
    return graphs->refusal_("cuGraphInstantiate");
  }
  static CUresult DestroyExec(CUgraphExec exec) {
    std::scoped_lock lock(graphs->mutex_);
    if (graphs->executors_.erase(exec) == 0) std::abort();
    return CUDA_SUCCESS;
  }
  static CUresult LaunchGraph(CUgraphExec exec, CUstream stream) {
    {
      std::scoped_lock lock(graphs->mutex_);
      if (!graphs->executors_.contains(exec)) std::abort();
    }
    return graphs->launch_(stream);
  }
};

FakeGraphs::FakeGraphs(Refusal refusal, Launch launch, Batch batch)
    : refusal_(std::move(refusal)), launch_(std::move(launch)), batch_(std::move(batch)) {
  graphs = this;
}

FakeGraphs::~FakeGraphs() { graphs = nullptr; }

void FakeGraphs::Install(Driver& driver) {
  driver.cuGraphCreate = FakeGraphCalls::CreateGraph;
  driver.cuGraphDestroy = FakeGraphCalls::DestroyGraph;
  driver.cuGraphConditionalHandleCreate = FakeGraphCalls::CreateCondition;
  driver.cuGraphAddNode = FakeGraphCalls::AddNode;
  driver.cuGraphDestroyNode = FakeGraphCalls::DestroyNode;
  driver.cuGraphKernelNodeSetAttribute = [](CUgraphNode, CUlaunchAttributeID,
                                            const CUlaunchAttributeValue*) { return CUDA_SUCCESS; };
  driver.cuGraphInstantiate = FakeGraphCalls::Instantiate;
  driver.cuGraphExecDestroy = FakeGraphCalls::DestroyExec;
  driver.cuGraphLaunch = FakeGraphCalls::LaunchGraph;
}

}  // namespace cuspan::proxy
