// Nodes of graphs: adding them, and the parameters of each kind.
#include "interpose/runtime/graph/nodes.h"

#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/copy_box.h"
#include "interpose/runtime/kernel.h"
#include "interpose/runtime/launch.h"
#include "interpose/runtime/same_bytes.h"

namespace cuspan {

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
    auto drivers = SameBytes<CUDA_MEM_ALLOC_NODE_PARAMS>(given);
    CUSPAN_RETURN_IF_FAILED(DescribeAllocation(place, &drivers, work));
    parameters->dptr = HandleOf<void*>(drivers.dptr);
    return cudaSuccess;
  });
}

// Its bodies are told in the parameters.
Error AddConditional(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     std::size_t count, cudaConditionalNodeParams* parameters) {
  CUDA_CONDITIONAL_NODE_PARAMS drivers{};
  drivers.handle = parameters->handle;
  drivers.type = static_cast<CUgraphConditionalNodeType>(parameters->type);
  drivers.size = parameters->size;
  CUSPAN_RETURN_IF_FAILED(AddConditionalNode(node, graph, dependencies, count, &drivers));
  parameters->phGraph_out = drivers.phGraph_out;
  return cudaSuccess;
}

// What the program calls the kernel by.
const void* NameOf(const FunctionRecord& function) {
  return function.host != nullptr ? function.host : &function;
}

Error AddFree(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              std::size_t count, void* memory) {
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) {
    return DescribeFree(place, memory, work);
  });
}

}  // namespace

Error DescribeRun(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                  Work* work) {
  CopySides sides{};
  CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &sides));
  return DescribeRun(destination, source, bytes, sides, work);
}

Error DescribeWork(const cudaKernelNodeParams* parameters, Work* work) {
  if (parameters == nullptr || parameters->func == nullptr) return cudaErrorInvalidValue;
  if (parameters->extra != nullptr)
    return NotSupported("a kernel node with its arguments in 'extra'");
  return OnCurrentDevice([&](Session& session, Link& link) -> Error {
    LaunchCall call{nullptr,
                    ShapeOf(parameters->gridDim, parameters->blockDim, parameters->sharedMemBytes),
                    parameters->kernelParams, nullptr};
    CUSPAN_RETURN_IF_FAILED(FindFunction(parameters->func, &call.function));
    return DescribeKernel(session.description(link.device()), link, call, work);
  });
}

Error DescribeWork(const cudaMemcpy3DParms* parameters, Work* work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  return WithSession([&](Session& session) -> Error {
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(BoxOf(session, *parameters, &box));
    return DescribeCopy(box, work);
  });
}

Error DescribeWork(const cudaMemsetParams* parameters, Work* work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  return DescribeSet(SameBytes<CUDA_MEMSET_NODE_PARAMS>(*parameters), work);
}

Error DescribeWork(const cudaHostNodeParams* parameters, Work* work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  return DescribeHost({parameters->fn, parameters->userData}, work);
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

namespace {

// Before CUDA 13 there was no data of edges, and what follows came earlier.
void MoveUp(const cudaGraphEdgeData* edges, std::size_t* count, cudaGraphNodeParams** parameters) {
  *parameters = HandleOf<cudaGraphNodeParams*>(*count);
  *count = NumberOf(edges);
}

Error Add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
          std::size_t count, cudaGraphNodeParams* parameters) {
  switch (parameters == nullptr ? cudaGraphNodeTypeEmpty : parameters->type) {
    case cudaGraphNodeTypeConditional:
      return AddConditional(node, graph, dependencies, count, &parameters->conditional);
    case cudaGraphNodeTypeMemAlloc:
      return AddAllocation(node, graph, dependencies, count, &parameters->alloc);
    case cudaGraphNodeTypeMemFree:
      return AddFree(node, graph, dependencies, count, parameters->free.dptr);
    default:
      return AddDescribed(node, graph, dependencies, count, parameters);
  }
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_SINCE_13(cudaGraphAddNode,
                       (cudaGraphNode_t * node, cudaGraph_t graph,
                        const cudaGraphNode_t* dependencies,
                        [[maybe_unused]] const cudaGraphEdgeData* edges, std::size_t count,
                        cudaGraphNodeParams* parameters),
                       MoveUp(edges, &count, &parameters),
                       Answer([&] { return Add(node, graph, dependencies, count, parameters); }))

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
      *parameters = {const_cast<void*>(NameOf(*work.function)),
                     {work.grid.x, work.grid.y, work.grid.z},
                     {work.block.x, work.block.y, work.block.z},
                     work.dynamic_shared,
                     pointers.data(),
                     nullptr};
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemcpy3DParms* parameters) {
  return Answer([&] {
    return WithSession([&](Session& session) {
      return AboutWork<CopyWork>(node, parameters, [&](const CopyWork& work) {
        *parameters = ParametersOf(session, work.box);
      });
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemsetParams* parameters) {
  return Answer([&] {
    return AboutWork<SetWork>(node, parameters, [&](const SetWork& work) {
      *parameters = SameBytes<cudaMemsetParams>(work.parameters);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                     cudaHostNodeParams* parameters) {
  return Answer([&] {
    return AboutWork<HostWork>(node, parameters, [&](const HostWork& work) {
      *parameters = {work.call.function, work.call.data};
    });
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
    return AboutWork<AllocateWork>(node, parameters, [&](const AllocateWork& work) {
      *parameters = SameBytes<cudaMemAllocNodeParams>(work.parameters);
    });
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
