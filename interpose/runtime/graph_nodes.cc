// Nodes of graphs: adding them, and the parameters of each kind.
#include <algorithm>

#include "interpose/client/pools.h"
#include "interpose/client/thread_state.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/copy_box.h"
#include "interpose/runtime/function.h"
#include "interpose/runtime/graph_use.h"
#include "interpose/runtime/launch.h"

namespace cuspan {

Error AddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              std::size_t count, Work work) {
  return AddNode(node, graph, dependencies, count, [&](const NewNode&, Work* out) -> Error {
    *out = std::move(work);
    return cudaSuccess;
  });
}

Error AddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              std::size_t count, const WorkOfGraph& make_work) {
  if (node == nullptr || (dependencies == nullptr && count != 0)) return cudaErrorInvalidValue;
  return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
    std::vector<GraphNode*> before;
    for (std::size_t i = 0; i < count; ++i) {
      const Graphs::Place place = Graphs::Get().Find(dependencies[i]);
      if (place.node == nullptr || place.graph != found ||
          std::find(before.begin(), before.end(), place.node) != before.end()) {
        return cudaErrorInvalidValue;
      }
      before.push_back(place.node);
    }
    Work work;
    CUSPAN_RETURN_IF_FAILED(make_work({found, before}, &work));
    GraphNode* const made =
        found->Add(std::move(work), std::move(before), ThisThread().current_device);
    Graphs::Get().Name(found, made);
    *node = HandleOf(*made);
    return cudaSuccess;
  });
}

namespace {

// A node with the work that `parameters` describe.
template <typename Parameters>
Error AddDescribed(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                   std::size_t count, Parameters* parameters) {
  Work work;
  CUSPAN_RETURN_IF_FAILED(DescribeWork(parameters, &work));
  return AddNode(node, graph, dependencies, count, std::move(work));
}

template <typename Parameters>
Error SetDescribed(cudaGraphNode_t node, Parameters* parameters) {
  Work work;
  CUSPAN_RETURN_IF_FAILED(DescribeWork(parameters, &work));
  return SetNode(node, std::move(work));
}

// use(const Kind&) → Error for a node of that kind.
template <typename Kind, typename Use>
Error AboutWork(cudaGraphNode_t node, const void* out, Use&& use) {
  if (out == nullptr) return cudaErrorInvalidValue;
  return WithNode(node, [&](const Graphs::Place& place) -> Error {
    auto* const work = std::get_if<Kind>(&place.node->work);
    if (work == nullptr) return cudaErrorInvalidValue;
    use(*work);
    return cudaSuccess;
  });
}

Error DescribeChild(cudaGraph_t graph, Work* work) {
  return WithGraph(graph, [&](const std::shared_ptr<Graph>& found) -> Error {
    return CloneAsChild(*found, work);
  });
}

// Of both kinds of parameters, which have the same members in another order.
template <typename Parameters>
Error AddAllocation(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    std::size_t count, Parameters* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) -> Error {
    cudaMemAllocNodeParams given{};
    given.poolProps = parameters->poolProps;
    given.accessDescs = parameters->accessDescs;
    given.accessDescCount = parameters->accessDescCount;
    given.bytesize = parameters->bytesize;
    CUSPAN_RETURN_IF_FAILED(DescribeAllocation(place, &given, work));
    parameters->dptr = given.dptr;
    return cudaSuccess;
  });
}

Error AddFree(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              std::size_t count, void* memory) {
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) {
    return DescribeFree(place, memory, work);
  });
}

template <typename Kind>
Error DescribeEvent(cudaEvent_t event, Work* work) {
  if (event == nullptr) return cudaErrorInvalidValue;
  *work = Kind{event};
  return cudaSuccess;
}

}  // namespace

Error DescribeRun(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  Work* work) {
  return WithSession([&](Session& session) -> Error {
    if (bytes == 0 || session.RunsOver(destination, bytes) || session.RunsOver(source, bytes))
      return cudaErrorInvalidValue;
    const cudaMemcpy3DParms parameters = ParametersOfRun(destination, source, bytes, kind);
    return DescribeWork(&parameters, work);
  });
}

Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work) {
  if (parameters == nullptr || parameters->func == nullptr) return cudaErrorInvalidValue;
  if (parameters->extra != nullptr)
    return NotSupported("a kernel node with its arguments in 'extra'");
  return OnCurrentDevice([&](Session& session, Link& link) -> Error {
    LoadedKernel* kernel = nullptr;
    CUSPAN_RETURN_IF_FAILED(FindKernel(link, parameters->func, &kernel));
    const LaunchCall call{parameters->func,
                          {parameters->gridDim, parameters->blockDim, parameters->sharedMemBytes},
                          parameters->kernelParams,
                          nullptr};
    CUSPAN_RETURN_IF_FAILED(CheckLaunch(session.description(link.device()), *kernel, call.shape));
    return DescribeKernel(*kernel, call, work);
  });
}

Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    Session::BoxCopy described;
    CUSPAN_RETURN_IF_FAILED(DescribeBox(session, *parameters, &described));
    *work = CopyWork{*parameters};
    return cudaSuccess;
  });
}

Error DescribeWork(const cudaMemsetParams* parameters, Work* work) {
  if (parameters == nullptr || parameters->dst == nullptr) return cudaErrorInvalidValue;
  const unsigned bytes = parameters->elementSize;
  if (bytes != 1 && bytes != 2 && bytes != 4) return cudaErrorInvalidValue;
  if (parameters->height > 1 && parameters->pitch / bytes < parameters->width)
    return cudaErrorInvalidValue;
  *work = SetWork{*parameters};
  return cudaSuccess;
}

Error DescribeWork(const cudaHostNodeParams* parameters, Work* work) {
  if (parameters == nullptr || parameters->fn == nullptr) return cudaErrorInvalidValue;
  *work = HostWork{*parameters};
  return cudaSuccess;
}

Error DescribeWork(cudaGraphNodeParams* parameters, Work* work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  switch (parameters->type) {
    case cudaGraphNodeTypeKernel: {
      const auto& p = parameters->kernel;
      const cudaKernelNodeParams same{p.func,           p.gridDim,      p.blockDim,
                                      p.sharedMemBytes, p.kernelParams, p.extra};
      return DescribeWork(&same, work);
    }
    case cudaGraphNodeTypeMemcpy:
      return DescribeWork(&parameters->memcpy.copyParams, work);
    case cudaGraphNodeTypeMemset: {
      const auto& p = parameters->memset;
      const cudaMemsetParams same{p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
      return DescribeWork(&same, work);
    }
    case cudaGraphNodeTypeHost: {
      const cudaHostNodeParams same{parameters->host.fn, parameters->host.userData};
      return DescribeWork(&same, work);
    }
    case cudaGraphNodeTypeGraph:
      return DescribeChild(parameters->graph.graph, work);
    case cudaGraphNodeTypeEmpty:
      *work = EmptyWork{};
      return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
      return DescribeEvent<WaitWork>(parameters->eventWait.event, work);
    case cudaGraphNodeTypeEventRecord:
      return DescribeEvent<RecordWork>(parameters->eventRecord.event, work);
    // As CUDA has it: such a node stays as it was made.
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
    case cudaGraphNodeTypeConditional:
      return cudaErrorNotSupported;
    default:
      return NotSupported("a graph node of an external semaphore");
  }
}

Error ReplaceWork(GraphNode& node, Work work) {
  if (node.work.index() != work.index()) return cudaErrorInvalidValue;
  // Attributes are set by themselves.
  if (auto* const kernel = std::get_if<KernelWork>(&work))
    kernel->TakeAttributes(std::get<KernelWork>(node.work));
  node.work = std::move(work);
  return cudaSuccess;
}

Error SetNode(cudaGraphNode_t node, Work work) {
  return WithNode(
      node, [&](const Graphs::Place& place) { return ReplaceWork(*place.node, std::move(work)); });
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies,
                                           const cudaGraphEdgeData* edges, std::size_t count,
                                           cudaGraphNodeParams* parameters) {
  // Before CUDA 13 there was no data of edges, and what follows came earlier.
  if (CallerIsBefore13(__builtin_return_address(0))) {
    parameters = HandleOf<cudaGraphNodeParams*>(count);
    count = NumberOf(edges);
  }
  return Answer([&] {
    switch (parameters == nullptr ? cudaGraphNodeTypeEmpty : parameters->type) {
      case cudaGraphNodeTypeConditional:
        return AddConditionalNode(node, graph, dependencies, count, &parameters->conditional);
      case cudaGraphNodeTypeMemAlloc:
        return AddAllocation(node, graph, dependencies, count, &parameters->alloc);
      case cudaGraphNodeTypeMemFree:
        return AddFree(node, graph, dependencies, count, parameters->free.dptr);
      default:
        return AddDescribed(node, graph, dependencies, count, parameters);
    }
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies,
                                                 std::size_t count,
                                                 const cudaKernelNodeParams* parameters) {
  return Answer([&] { return AddDescribed(node, graph, dependencies, count, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies,
                                                 std::size_t count,
                                                 const cudaMemcpy3DParms* parameters) {
  return Answer([&] { return AddDescribed(node, graph, dependencies, count, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count, void* destination,
                                                   const void* source, std::size_t bytes,
                                                   cudaMemcpyKind kind) {
  return Answer([&]() -> Error {
    Work work;
    CUSPAN_RETURN_IF_FAILED(DescribeRun(destination, source, bytes, kind, &work));
    return AddNode(node, graph, dependencies, count, std::move(work));
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies,
                                                 std::size_t count,
                                                 const cudaMemsetParams* parameters) {
  return Answer([&] { return AddDescribed(node, graph, dependencies, count, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies,
                                               std::size_t count,
                                               const cudaHostNodeParams* parameters) {
  return Answer([&] { return AddDescribed(node, graph, dependencies, count, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                std::size_t count) {
  return Answer([&] { return AddNode(node, graph, dependencies, count, EmptyWork{}); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count, cudaGraph_t child) {
  return Answer([&]() -> Error {
    Work work;
    CUSPAN_RETURN_IF_FAILED(DescribeChild(child, &work));
    return AddNode(node, graph, dependencies, count, std::move(work));
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* dependencies,
                                                      std::size_t count, cudaEvent_t event) {
  return Answer([&]() -> Error {
    if (event == nullptr) return cudaErrorInvalidValue;
    return AddNode(node, graph, dependencies, count, RecordWork{event});
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    std::size_t count, cudaEvent_t event) {
  return Answer([&]() -> Error {
    if (event == nullptr) return cudaErrorInvalidValue;
    return AddNode(node, graph, dependencies, count, WaitWork{event});
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count,
                                                   cudaMemAllocNodeParams* parameters) {
  return Answer([&] { return AddAllocation(node, graph, dependencies, count, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  std::size_t count, void* memory) {
  return Answer([&] { return AddFree(node, graph, dependencies, count, memory); });
}

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                                       cudaKernelNodeParams* parameters) {
  return Answer([&] {
    return AboutWork<KernelWork>(node, parameters, [&](const KernelWork& work) {
      // The pointers are good until the node or this thread's next such call.
      thread_local std::vector<void*> pointers;
      pointers.clear();
      for (const auto& argument : work.arguments)
        pointers.push_back(const_cast<std::byte*>(argument.data()));
      *parameters = {const_cast<void*>(work.function),
                     work.grid,
                     work.block,
                     work.dynamic_shared,
                     pointers.data(),
                     nullptr};
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemcpy3DParms* parameters) {
  return Answer([&] {
    return AboutWork<CopyWork>(node, parameters,
                               [&](const CopyWork& work) { *parameters = work.parameters; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemsetParams* parameters) {
  return Answer([&] {
    return AboutWork<SetWork>(node, parameters,
                              [&](const SetWork& work) { *parameters = work.parameters; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                     cudaHostNodeParams* parameters) {
  return Answer([&] {
    return AboutWork<HostWork>(node, parameters,
                               [&](const HostWork& work) { *parameters = work.parameters; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node,
                                                          cudaGraph_t* graph) {
  return Answer([&] {
    return AboutWork<ChildWork>(node, graph,
                                [&](const ChildWork& work) { *graph = HandleOf(*work.graph); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                         cudaMemAllocNodeParams* parameters) {
  return Answer([&] {
    return AboutWork<AllocateWork>(
        node, parameters, [&](const AllocateWork& work) { *parameters = work.parameters; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* memory) {
  return Answer([&] {
    return AboutWork<FreeWork>(
        node, memory, [&](const FreeWork& work) { *static_cast<void**>(memory) = work.memory; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
                                                           cudaEvent_t* event) {
  return Answer([&] {
    return AboutWork<RecordWork>(node, event, [&](const RecordWork& work) { *event = work.event; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return Answer([&] {
    return AboutWork<WaitWork>(node, event, [&](const WaitWork& work) { *event = work.event; });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node,
                                                 cudaGraphNodeParams* parameters) {
  return Answer([&] { return SetDescribed(node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* parameters) {
  return Answer([&] { return SetDescribed(node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* parameters) {
  return Answer([&] { return SetDescribed(node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* destination,
                                                         const void* source, std::size_t bytes,
                                                         cudaMemcpyKind kind) {
  return Answer([&]() -> Error {
    Work work;
    CUSPAN_RETURN_IF_FAILED(DescribeRun(destination, source, bytes, kind, &work));
    return SetNode(node, std::move(work));
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                       const cudaMemsetParams* parameters) {
  return Answer([&] { return SetDescribed(node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                     const cudaHostNodeParams* parameters) {
  return Answer([&] { return SetDescribed(node, parameters); });
}

CUSPAN_EXPORT cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node,
                                                           cudaEvent_t event) {
  return Answer([&]() -> Error {
    if (event == nullptr) return cudaErrorInvalidValue;
    return SetNode(node, RecordWork{event});
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return Answer([&]() -> Error {
    if (event == nullptr) return cudaErrorInvalidValue;
    return SetNode(node, WaitWork{event});
  });
}
