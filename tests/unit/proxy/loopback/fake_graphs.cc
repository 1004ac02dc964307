#include "tests/unit/proxy/loopback/fake_graphs.h"

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace cuspan::proxy {

// Work of a node in a stream.
using Work = std::function<CUresult(CUstream stream)>;

struct FakeGraphs::Node {
  std::vector<CUgraph> bodies;
  Work work;
};

struct FakeGraphs::Graph {
  std::map<CUgraphNode, std::unique_ptr<Node>> nodes;
  std::vector<CUgraphNode> order;  // Order of insertion.
};

struct FakeGraphs::Exec {
  std::vector<std::pair<CUgraphNode, Work>> works;
};

namespace {

FakeGraphs* graphs = nullptr;

// Copies the current arguments.
Work WorkOf(const Driver& driver, const CUDA_KERNEL_NODE_PARAMS_v3& kernel) {
  std::vector<std::vector<std::byte>> arguments;
  for (std::size_t i = 0, offset = 0, bytes = 0;
       driver.cuFuncGetParamInfo(kernel.func, i, &offset, &bytes) == CUDA_SUCCESS; ++i) {
    const auto* const first = static_cast<const std::byte*>(kernel.kernelParams[i]);
    arguments.emplace_back(first, first + bytes);
  }
  return [&driver, kernel, arguments](CUstream stream) mutable {
    std::vector<void*> pointers;
    for (auto& argument : arguments) pointers.push_back(argument.data());
    return driver.cuLaunchKernel(kernel.func, kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ,
                                 kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ,
                                 kernel.sharedMemBytes, stream, pointers.data(), nullptr);
  };
}
Work WorkOf(const Driver& driver, const CUDA_MEMSET_NODE_PARAMS_v2& set) {
  return [&driver, set](CUstream stream) {
    if (set.elementSize == 1 && set.height == 1)
      return driver.cuMemsetD8Async(set.dst, static_cast<unsigned char>(set.value), set.width,
                                    stream);
    if (set.elementSize == 1)
      return driver.cuMemsetD2D8Async(set.dst, set.pitch, static_cast<unsigned char>(set.value),
                                      set.width, set.height, stream);
    if (set.elementSize == 2 && set.height == 1)
      return driver.cuMemsetD16Async(set.dst, static_cast<unsigned short>(set.value), set.width,
                                     stream);
    return set.height == 1 ? driver.cuMemsetD32Async(set.dst, set.value, set.width, stream)
                           : CUDA_ERROR_NOT_SUPPORTED;
  };
}
// Null for nodes without work.
Work WorkOf(const Driver& driver, const CUgraphNodeParams& parameters) {
  switch (parameters.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return WorkOf(driver, parameters.kernel);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return WorkOf(driver, parameters.memset);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return [&driver, copy = parameters.memcpy.copyParams](CUstream stream) {
        return driver.cuMemcpy3DAsync(&copy, stream);
      };
    default:
      return nullptr;
  }
}

}  // namespace

struct FakeGraphCalls {
  static CUgraph NewGraph() {
    auto graph = std::make_unique<FakeGraphs::Graph>();
    FakeGraphs::Graph* const destination = graph.get();
    graphs->graphs_[destination] = std::move(graph);
    return reinterpret_cast<CUgraph>(destination);
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
    made->work = WorkOf(*graphs->driver_, *parameters);
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
    graph.order.push_back(*node);
    return CUDA_SUCCESS;
  }
  static CUresult DestroyNode(CUgraphNode node) {
    std::scoped_lock lock(graphs->mutex_);
    for (const auto& [destination, graph] : graphs->graphs_) {
      const auto known = graph->nodes.find(node);
      if (known == graph->nodes.end()) continue;
      const std::unique_ptr<FakeGraphs::Node> gone = std::move(known->second);
      graph->nodes.erase(known);
      std::erase(graph->order, node);
      for (CUgraph body : gone->bodies) EraseGraph(body);
      return CUDA_SUCCESS;
    }
    std::abort();
  }
  static CUresult Instantiate(CUgraphExec* exec, CUgraph handle, unsigned long long) {
    std::scoped_lock lock(graphs->mutex_);
    const FakeGraphs::Graph& graph = GraphOf(handle);
    auto made = std::make_unique<FakeGraphs::Exec>();
    for (CUgraphNode node : graph.order) made->works.emplace_back(node, graph.nodes.at(node)->work);
    *exec = reinterpret_cast<CUgraphExec>(made.get());
    graphs->executors_[made.get()] = std::move(made);
    return graphs->refusal_("cuGraphInstantiate");
  }
  static FakeGraphs::Exec& ExecOf(CUgraphExec exec) {
    const auto known = graphs->executors_.find(exec);
    if (known == graphs->executors_.end()) std::abort();
    return *known->second;
  }
  static CUresult ChangeNode(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters) {
    std::scoped_lock lock(graphs->mutex_);
    if (const CUresult refusal = graphs->refusal_("cuGraphExecNodeSetParams");
        refusal != CUDA_SUCCESS)
      return refusal;
    const char* kernel = nullptr;
    if (parameters->type == CU_GRAPH_NODE_TYPE_KERNEL &&
        graphs->driver_->cuFuncGetName(&kernel, parameters->kernel.func) == CUDA_SUCCESS &&
        std::strcmp(kernel, "refused") == 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (auto& [known, work] : ExecOf(exec).works) {
      if (known != node) continue;
      work = WorkOf(*graphs->driver_, *parameters);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  }
  static CUresult DestroyExec(CUgraphExec exec) {
    std::scoped_lock lock(graphs->mutex_);
    if (graphs->executors_.erase(exec) == 0) std::abort();
    return CUDA_SUCCESS;
  }
  static CUresult LaunchGraph(CUgraphExec exec, CUstream stream) {
    std::vector<std::pair<CUgraphNode, Work>> works;
    {
      std::scoped_lock lock(graphs->mutex_);
      if (const CUresult refusal = graphs->refusal_("cuGraphLaunch"); refusal != CUDA_SUCCESS)
        return refusal;
      works = ExecOf(exec).works;
    }
    CUresult result = graphs->launch_(stream);
    for (auto& [node, work] : works)
      if (result == CUDA_SUCCESS && work != nullptr) result = work(stream);
    return result;
  }
};

FakeGraphs::FakeGraphs(Refusal refusal, Launch launch, Batch batch)
    : refusal_(std::move(refusal)), launch_(std::move(launch)), batch_(std::move(batch)) {
  graphs = this;
}

FakeGraphs::~FakeGraphs() { graphs = nullptr; }

void FakeGraphs::Install(Driver& driver) {
  driver_ = &driver;
  driver.cuGraphCreate = FakeGraphCalls::CreateGraph;
  driver.cuGraphDestroy = FakeGraphCalls::DestroyGraph;
  driver.cuGraphConditionalHandleCreate = FakeGraphCalls::CreateCondition;
  driver.cuGraphAddNode = FakeGraphCalls::AddNode;
  driver.cuGraphDestroyNode = FakeGraphCalls::DestroyNode;
  driver.cuGraphKernelNodeSetAttribute = [](CUgraphNode, CUlaunchAttributeID,
                                            const CUlaunchAttributeValue*) { return CUDA_SUCCESS; };
  driver.cuGraphInstantiate = FakeGraphCalls::Instantiate;
  driver.cuGraphExecNodeSetParams = FakeGraphCalls::ChangeNode;
  driver.cuGraphExecDestroy = FakeGraphCalls::DestroyExec;
  driver.cuGraphLaunch = FakeGraphCalls::LaunchGraph;
}

}  // namespace cuspan::proxy
