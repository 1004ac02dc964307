// cuGraph*: graphs, their nodes and conditions, executable graphs.
#include "proxy/softgpu/driver/graph.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/fill.h"
#include "proxy/softgpu/driver/memory_batch.h"
#include "proxy/softgpu/driver/state.h"

namespace cuspan::softgpu {
namespace {

// Limit far above actual programs; each body of a node is a separate graph.
constexpr unsigned kMaxBodies = 1U << 16;
// Nesting of graphs, limited because bodies are visited by recursion.
constexpr std::size_t kMaxGraphLevels = 128;

constexpr unsigned long long kInstantiateFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// Finds the object of a graph, node or executable graph handle. `context_of` returns its context.
template <typename T, typename ContextOf>
CUresult FindIn(Driver& driver, const HandleTable<T>& table, std::uint64_t handle,
                ContextOf context_of, std::shared_ptr<T>* object) {
  *object = table.Find(handle);
  if (*object != nullptr) return context_of(**object)->error();
  const CUresult result = driver.InvalidHandle();
  return result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult FindGraph(Driver& driver, CUgraph handle, std::shared_ptr<Graph>* graph) {
  return FindIn(
      driver, driver.graphs, Number(handle), [](const Graph& found) { return found.tree->context; },
      graph);
}

CUresult FindNode(Driver& driver, CUgraphNode handle, std::shared_ptr<GraphNode>* node) {
  return FindIn(
      driver, driver.graph_nodes, Number(handle),
      [](const GraphNode& found) { return found.tree->context; }, node);
}

CUresult FindExec(Driver& driver, CUgraphExec handle, std::shared_ptr<GraphExec>* exec) {
  return FindIn(
      driver, driver.graph_execs, Number(handle),
      [](const GraphExec& found) { return found.context; }, exec);
}

// Checks the context given for a node or a condition; null is allowed.
CUresult CheckContext(Driver& driver, const GraphTree& tree, CUcontext context) {
  const std::uint64_t own = driver.FindDevice(tree.context->device())->context_handle;
  return context == nullptr || Number(context) == own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

std::shared_ptr<Graph> AddGraph(Driver& driver, std::shared_ptr<GraphTree> tree,
                                std::vector<std::uint64_t> lineage) {
  auto graph = std::make_shared<Graph>();
  graph->tree = std::move(tree);
  graph->lineage = std::move(lineage);
  graph->lineage.push_back(driver.graphs.Add(graph));
  return graph;
}

// Removes the handles of a node or a graph and of all its parts.
void RemoveHandles(Driver& driver, const Graph& graph);
void RemoveHandles(Driver& driver, const GraphNode& node) {
  driver.graph_nodes.Remove(node.handle);
  const auto* conditional = std::get_if<ConditionalNode>(&node.work);
  if (conditional == nullptr) return;
  for (const std::shared_ptr<Graph>& body : conditional->bodies) RemoveHandles(driver, *body);
}
void RemoveHandles(Driver& driver, const Graph& graph) {
  for (const std::shared_ptr<GraphNode>& node : graph.nodes) RemoveHandles(driver, *node);
  driver.graphs.Remove(graph.lineage.back());
}

// --- Nodes

// True if all bytes behind the `used` ones of a node's parameters are zero, as cuda.h requires.
bool HasCleanRest(const CUgraphNodeParams& params, std::size_t used) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&params.reserved1);
  return std::all_of(bytes + used, bytes + sizeof params.reserved1,
                     [](unsigned char byte) { return byte == 0; }) &&
         std::all_of(std::begin(params.reserved0), std::end(params.reserved0),
                     [](int word) { return word == 0; }) &&
         params.reserved2 == 0;
}

// Programmatic dependencies only permit an early start of a kernel, so they are treated as full
// ones.
bool IsKnownEdge(const CUgraphEdgeData& edge) {
  return edge.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && edge.to_port == 0 &&
         edge.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         std::all_of(std::begin(edge.reserved), std::end(edge.reserved),
                     [](unsigned char byte) { return byte == 0; });
}

CUresult ReadDependencies(Driver& driver, const Graph& graph, const CUgraphNode* dependencies,
                          const CUgraphEdgeData* edges, std::size_t count,
                          std::vector<std::uint64_t>* after) {
  if (count > graph.nodes.size() || (count != 0 && dependencies == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t i = 0; i < count; ++i) {
    std::shared_ptr<GraphNode> node;
    CUSPAN_SOFT_RETURN_IF_ERROR(FindNode(driver, dependencies[i], &node));
    if (node->graph != graph.lineage.back() || !seen.insert(node->handle).second ||
        (edges != nullptr && !IsKnownEdge(edges[i]))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    after->push_back(node->handle);
  }
  return CUDA_SUCCESS;
}

CUresult MakeKernel(Driver& driver, const GraphTree& tree, const CUDA_KERNEL_NODE_PARAMS_v3& params,
                    GraphNode* node) {
  KernelNode kernel;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver.FindFunction(params.func, &kernel.function));
  if (kernel.function->module()->context() != tree.context) return CUDA_ERROR_INVALID_CONTEXT;
  kernel.shape = {{params.gridDimX, params.gridDimY, params.gridDimZ},
                  {params.blockDimX, params.blockDimY, params.blockDimZ},
                  params.sharedMemBytes};
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckShape(kernel.shape));
  CUSPAN_SOFT_RETURN_IF_ERROR(
      CopyParams(kernel.function->info(), params.kernelParams, params.extra, &kernel.params));
  node->work = std::move(kernel);
  return CUDA_SUCCESS;
}

CUresult MakeFill(Driver& driver, const GraphTree& tree, const CUDA_MEMSET_NODE_PARAMS_v2& params,
                  GraphNode* node) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckContext(driver, tree, params.ctx));
  if (params.elementSize != 1 && params.elementSize != 2 && params.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  const Fill fill{.target = params.dst,
                  .pitch = params.pitch,
                  .value = params.value,
                  .width = params.elementSize,
                  .count = params.width,
                  .rows = params.height};
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckFill(driver, *tree.context, fill));
  node->work = fill;
  return CUDA_SUCCESS;
}

CUresult MakeCopy(Driver& driver, const GraphTree& tree, const CUDA_MEMCPY_NODE_PARAMS& params,
                  GraphNode* node) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckContext(driver, tree, params.copyCtx));
  if (params.flags != 0 || params.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
  BoxCopy copy;
  CUSPAN_SOFT_RETURN_IF_ERROR(PrepareBoxCopy(driver, *tree.context, params.copyParams, &copy));
  node->work = std::move(copy);
  return CUDA_SUCCESS;
}

CUresult MakeMemoryBatch(Driver& driver, const Graph& graph,
                         const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& params, GraphNode* node) {
  const GraphTree& tree = *graph.tree;
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckContext(driver, tree, params.ctx));
  // Bodies cannot have these nodes.
  if (graph.lineage.size() > 1) return CUDA_ERROR_INVALID_VALUE;
  MemoryBatchNode batch;
  CUSPAN_SOFT_RETURN_IF_ERROR(PrepareMemoryBatch(
      driver, *tree.context, params.count, params.paramArray, params.flags, &batch.operations));
  node->work = std::move(batch);
  return CUDA_SUCCESS;
}

bool IsKnownConditional(const CUDA_CONDITIONAL_NODE_PARAMS& params) {
  switch (params.type) {
    case CU_GRAPH_COND_TYPE_IF:
      return params.size == 1 || params.size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return params.size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return params.size >= 1;
    default:
      return false;
  }
}

CUresult MakeConditional(Driver& driver, const Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS* params,
                         GraphNode* node) {
  const GraphTree& tree = *graph.tree;
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckContext(driver, tree, params->ctx));
  const bool in_scope = std::any_of(
      tree.conditions.begin(), tree.conditions.end(), [&](const GraphCondition& condition) {
        return condition.at_launch.handle == params->handle &&
               std::find(graph.lineage.begin(), graph.lineage.end(), condition.graph) !=
                   graph.lineage.end();
      });
  if (!in_scope || !IsKnownConditional(*params)) return CUDA_ERROR_INVALID_VALUE;
  if (params->size > kMaxBodies) return CUDA_ERROR_OUT_OF_MEMORY;
  if (graph.lineage.size() >= kMaxGraphLevels) return CUDA_ERROR_NOT_SUPPORTED;
  ConditionalNode conditional;
  conditional.condition = params->handle;
  conditional.type = params->type;
  for (unsigned i = 0; i < params->size; ++i) {
    conditional.bodies.push_back(AddGraph(driver, graph.tree, graph.lineage));
    conditional.handles.push_back(AsHandle<CUgraph>(conditional.bodies.back()->lineage.back()));
  }
  node->work = std::move(conditional);
  params->phGraph_out = std::get<ConditionalNode>(node->work).handles.data();
  return CUDA_SUCCESS;
}

CUresult MakeWork(Driver& driver, const Graph& graph, CUgraphNodeParams* params, GraphNode* node) {
  std::size_t used = 0;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      break;
    case CU_GRAPH_NODE_TYPE_KERNEL:
      used = sizeof params->kernel;
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      used = sizeof params->memset;
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      used = sizeof params->memcpy;
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      used = sizeof params->memOp;
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      used = sizeof params->conditional;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!HasCleanRest(*params, used)) return CUDA_ERROR_INVALID_VALUE;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return MakeKernel(driver, *graph.tree, params->kernel, node);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return MakeFill(driver, *graph.tree, params->memset, node);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return MakeCopy(driver, *graph.tree, params->memcpy, node);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return MakeMemoryBatch(driver, graph, params->memOp, node);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return MakeConditional(driver, graph, &params->conditional, node);
    default:
      return CUDA_SUCCESS;
  }
}

// --- Executable graphs

// Last step of each node, by node handle.
using LastSteps = std::unordered_map<std::uint64_t, std::size_t>;
CUresult MakeSteps(Driver& driver, const Graph& graph, std::vector<GraphStep>* steps,
                   LastSteps* last_steps);

// Appends the steps of a node; an empty node is one step.
CUresult AddStep(Driver&, const GraphTree&, const EmptyNode& node, std::vector<GraphStep>* steps) {
  steps->push_back({node});
  return CUDA_SUCCESS;
}

CUresult AddStep(Driver& driver, const GraphTree& tree, const KernelNode& node,
                 std::vector<GraphStep>* steps) {
  KernelStep step;
  CUSPAN_SOFT_RETURN_IF_ERROR(PrepareHostLaunch(driver, tree.context, *node.function, node.shape,
                                                node.cooperative, &step.launch));
  step.launch.params = node.params;
  step.module = node.function->module();
  steps->push_back({std::move(step)});
  return CUDA_SUCCESS;
}

CUresult AddStep(Driver&, const GraphTree&, const Fill& fill, std::vector<GraphStep>* steps) {
  if (IsEmpty(fill))
    steps->push_back({EmptyNode{}});
  else
    steps->push_back({fill});
  return CUDA_SUCCESS;
}

CUresult AddStep(Driver&, const GraphTree&, const BoxCopy& copy, std::vector<GraphStep>* steps) {
  if (copy.empty())
    steps->push_back({EmptyNode{}});
  else
    steps->push_back({copy});
  return CUDA_SUCCESS;
}

CUresult AddStep(Driver&, const GraphTree&, const MemoryBatchNode& batch,
                 std::vector<GraphStep>* steps) {
  if (batch.operations.empty()) steps->push_back({EmptyNode{}});
  for (const MemoryOperation& operation : batch.operations) steps->push_back({operation});
  return CUDA_SUCCESS;
}

CUresult AddStep(Driver& driver, const GraphTree&, const ConditionalNode& node,
                 std::vector<GraphStep>* steps) {
  ConditionalStep step;
  step.condition = node.condition;
  step.type = node.type;
  for (const std::shared_ptr<Graph>& body : node.bodies) {
    LastSteps last_steps;
    CUSPAN_SOFT_RETURN_IF_ERROR(MakeSteps(driver, *body, &step.bodies.emplace_back(), &last_steps));
  }
  steps->push_back({std::move(step)});
  return CUDA_SUCCESS;
}

CUresult MakeSteps(Driver& driver, const Graph& graph, std::vector<GraphStep>* steps,
                   LastSteps* last_steps) {
  for (const std::shared_ptr<GraphNode>& node : graph.nodes) {
    const std::size_t first = steps->size();
    CUSPAN_SOFT_RETURN_IF_ERROR(std::visit(
        [&](const auto& work) { return AddStep(driver, *graph.tree, work, steps); }, node->work));
    for (const std::uint64_t before : node->after) {
      const auto known = last_steps->find(before);  // Destroyed nodes have no steps.
      if (known != last_steps->end()) (*steps)[first].after.push_back(known->second);
    }
    for (std::size_t i = first + 1; i < steps->size(); ++i) (*steps)[i].after = {i - 1};
    (*last_steps)[node->handle] = steps->size() - 1;
  }
  return CUDA_SUCCESS;
}

}  // namespace

// A graph's nodes run in the context current at its creation.
CUSPAN_SOFT_API CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->UsableContext(&context));
  auto tree = std::shared_ptr<GraphTree>(new GraphTree{std::move(context), {}, {}});
  *graph = AsHandle<CUgraph>(AddGraph(*driver, std::move(tree), {})->lineage.back());
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Graph> graph;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindGraph(*driver, handle, &graph));
  std::lock_guard lock(graph->tree->mutex);
  if (graph->lineage.size() > 1) return CUDA_ERROR_INVALID_VALUE;  // Owned by its node.
  RemoveHandles(*driver, *graph);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle* condition,
                                                                CUgraph handle, CUcontext context,
                                                                unsigned default_value,
                                                                unsigned flags) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Graph> graph;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindGraph(*driver, handle, &graph));
  if (condition == nullptr || (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUSPAN_SOFT_RETURN_IF_ERROR(CheckContext(*driver, *graph->tree, context));
  std::lock_guard lock(graph->tree->mutex);
  // CUDA does not specify a condition's initial value at launch without a default; it is 0 here.
  const unsigned at_launch = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0 ? default_value : 0;
  *condition = MakeHandle(HandleKind::kCondition, driver->next_condition.fetch_add(1));
  graph->tree->conditions.push_back({graph->lineage.back(), {*condition, at_launch}});
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGraphAddNode(CUgraphNode* handle, CUgraph graph_handle,
                                                const CUgraphNode* dependencies,
                                                const CUgraphEdgeData* edges, std::size_t count,
                                                CUgraphNodeParams* params) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Graph> graph;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindGraph(*driver, graph_handle, &graph));
  if (handle == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(graph->tree->mutex);
  auto node = std::make_shared<GraphNode>();
  CUSPAN_SOFT_RETURN_IF_ERROR(
      ReadDependencies(*driver, *graph, dependencies, edges, count, &node->after));
  node->tree = graph->tree;
  node->graph = graph->lineage.back();
  CUSPAN_SOFT_RETURN_IF_ERROR(MakeWork(*driver, *graph, params, node.get()));
  node->handle = driver->graph_nodes.Add(node);
  *handle = AsHandle<CUgraphNode>(node->handle);
  graph->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<GraphNode> node;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindNode(*driver, handle, &node));
  std::lock_guard lock(node->tree->mutex);
  const std::shared_ptr<Graph> graph = driver->graphs.Find(node->graph);
  if (graph == nullptr || std::erase(graph->nodes, node) == 0) return CUDA_ERROR_INVALID_VALUE;
  RemoveHandles(*driver, *node);
  return CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode handle,
                                                               CUkernelNodeAttrID attribute,
                                                               const CUkernelNodeAttrValue* value) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<GraphNode> node;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindNode(*driver, handle, &node));
  std::lock_guard lock(node->tree->mutex);
  auto* const kernel = std::get_if<KernelNode>(&node->work);
  if (kernel == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      kernel->cooperative = value->cooperative != 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:  // Hint; nodes use their stream's priority.
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// Kernels are compiled here, so launches do not wait for a compilation.
CUSPAN_SOFT_API CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* handle, CUgraph graph_handle,
                                                    unsigned long long flags) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<Graph> graph;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindGraph(*driver, graph_handle, &graph));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kInstantiateFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  driver->MayWait(*graph->tree->context);
  std::lock_guard lock(graph->tree->mutex);
  if (graph->lineage.size() > 1) return CUDA_ERROR_INVALID_VALUE;  // Part of another graph.
  auto program = std::make_shared<GraphProgram>();
  program->context = graph->tree->context;
  for (const GraphCondition& condition : graph->tree->conditions)
    program->conditions.push_back(condition.at_launch);
  CUSPAN_SOFT_RETURN_IF_ERROR(MakeSteps(*driver, *graph, &program->steps, &program->places));
  auto exec =
      std::shared_ptr<GraphExec>(new GraphExec{program->context, {}, std::move(program), nullptr});
  *handle = AsHandle<CUgraphExec>(driver->graph_execs.Add(std::move(exec)));
  return CUDA_SUCCESS;
}

// Changes nodes with one step, keeping their kind. Hardware supports only fills and copies of one
// row; this is not checked here.
CUSPAN_SOFT_API CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec handle, CUgraphNode node,
                                                          CUgraphNodeParams* params) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<GraphExec> exec;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindExec(*driver, handle, &exec));
  std::shared_ptr<GraphNode> known;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindNode(*driver, node, &known));
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard tree_lock(known->tree->mutex);
  const std::lock_guard lock(exec->mutex);
  const std::shared_ptr<Graph> graph = driver->graphs.Find(known->graph);
  const auto place = exec->program->places.find(known->handle);
  if (graph == nullptr || place == exec->program->places.end()) return CUDA_ERROR_INVALID_VALUE;
  GraphNode changed;
  CUSPAN_SOFT_RETURN_IF_ERROR(MakeWork(*driver, *graph, params, &changed));
  if (changed.work.index() != known->work.index() ||
      std::holds_alternative<MemoryBatchNode>(changed.work) ||
      std::holds_alternative<ConditionalNode>(changed.work))
    return CUDA_ERROR_INVALID_VALUE;
  if (auto* const kernel = std::get_if<KernelNode>(&changed.work))
    kernel->cooperative = std::get<KernelNode>(known->work).cooperative;
  std::vector<GraphStep> step;
  CUSPAN_SOFT_RETURN_IF_ERROR(std::visit(
      [&](const auto& work) { return AddStep(*driver, *graph->tree, work, &step); }, changed.work));
  // A launch in flight keeps its program, so the change goes to a copy.
  if (exec->program.use_count() > 1) exec->program = std::make_shared<GraphProgram>(*exec->program);
  exec->program->steps[place->second].work = std::move(step.front().work);
  return CUDA_SUCCESS;
}

// Launches in flight keep their program.
CUSPAN_SOFT_API CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<GraphExec> exec;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindExec(*driver, handle, &exec));
  return driver->graph_execs.Remove(Number(handle)) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                               : CUDA_SUCCESS;
}

CUSPAN_SOFT_API CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  CUSPAN_SOFT_ENTER(driver);
  std::shared_ptr<GraphExec> exec;
  CUSPAN_SOFT_RETURN_IF_ERROR(FindExec(*driver, handle, &exec));
  StreamEntry at;
  CUSPAN_SOFT_RETURN_IF_ERROR(driver->FindStream(stream, &at));
  if (at.context != exec->context) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(exec->mutex);
  exec->last = at.context->streams().EnqueueSequence(
      *at.stream, MakeGraphRun(*driver, exec->program, at.stream->priority()), exec->last);
  return CUDA_SUCCESS;
}

}  // namespace cuspan::softgpu
