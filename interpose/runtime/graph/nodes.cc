// Nodes of graphs: adding them, and the parameters of each kind.
#include "interpose/runtime/graph/nodes.h"

#include "interpose/calls/execution/conditions.h"
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/calls/graph/structure.h"
#include "interpose/runtime/caller.h"
#include "interpose/runtime/copy_box.h"
#include "interpose/runtime/kernel.h"
#include "interpose/runtime/launch.h"
#include "interpose/runtime/same_bytes.h"

namespace cuspan {

namespace {

// Parameters: one of two structures with the same members in different order.
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

// The node's body graphs are returned in the parameters.
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

cudaKernelNodeParams ParametersOf(GraphNode& node, const KernelWork& work) {
  // The program's name of the kernel.
  const FunctionRecord& function = *work.function;
  const void* const name = function.host != nullptr ? function.host : function.handle;
  return {const_cast<void*>(name),
          {work.grid.x, work.grid.y, work.grid.z},
          {work.block.x, work.block.y, work.block.z},
          work.dynamic_shared,
          node.ExposeArguments(work),
          nullptr};
}

// Fills *out from a node's work. Its pointers refer to memory of the node.
struct ReportParameters {
  Session& session;
  GraphNode& node;
  cudaGraphNodeParams* out;

  Error operator()(const KernelWork& work) const {
    const cudaKernelNodeParams p = ParametersOf(node, work);
    out->kernel = {p.func, p.gridDim, p.blockDim, p.sharedMemBytes, p.kernelParams, p.extra};
    return cudaSuccess;
  }
  Error operator()(const CopyWork& work) const {
    out->memcpy.copyParams = ParametersOf(session, work.box);
    return cudaSuccess;
  }
  Error operator()(const SetWork& work) const {
    const CUDA_MEMSET_NODE_PARAMS& p = work.parameters;
    out->memset = {HandleOf<void*>(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height};
    return cudaSuccess;
  }
  Error operator()(const HostWork& work) const {
    out->host = {work.call.function, work.call.data};
    return cudaSuccess;
  }
  Error operator()(const ChildWork& work) const {
    out->graph.graph = HandleOf(*work.graph);
    return cudaSuccess;
  }
  Error operator()(const EmptyWork&) const { return cudaSuccess; }
  Error operator()(const WaitWork& work) const {
    out->eventWait.event = work.event;
    return cudaSuccess;
  }
  Error operator()(const RecordWork& work) const {
    out->eventRecord.event = work.event;
    return cudaSuccess;
  }
  Error operator()(const AllocateWork& work) const {
    const auto p = SameBytes<cudaMemAllocNodeParams>(work.parameters);
    out->alloc = {p.poolProps, p.accessDescs, p.accessDescCount, p.bytesize, p.dptr};
    return cudaSuccess;
  }
  Error operator()(const FreeWork& work) const {
    out->free.dptr = work.memory;
    return cudaSuccess;
  }
  Error operator()(const ConditionWork& work) const {
    out->conditional = {work.condition, static_cast<cudaGraphConditionalNodeType>(work.kind),
                        static_cast<unsigned>(work.handles->size()), work.handles->data()};
    return cudaSuccess;
  }
  // The runtime has no nodes of this type.
  Error operator()(const MemoryBatchWork&) const { return cudaErrorNotSupported; }
  // NCCL's kernels are known to the proxy only.
  Error operator()(const CollectiveWork&) const { return cudaErrorInvalidValue; }
};

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
  return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
    LaunchCall call(ShapeOf(parameters->gridDim, parameters->blockDim, parameters->sharedMemBytes),
                    nullptr);
    CUSPAN_RETURN_IF_FAILED(ReadArguments(parameters->kernelParams, parameters->extra, &call));
    CUSPAN_RETURN_IF_FAILED(FindFunction(parameters->func, &call.function));
    return DescribeKernel(session.devices().description(connection.device()), connection, call,
                          work);
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
    // CUDA does not allow changes to these nodes.
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
    case cudaGraphNodeTypeConditional:
      return cudaErrorNotSupported;
    case cudaGraphNodeTypeExtSemaphoreSignal:
    case cudaGraphNodeTypeExtSemaphoreWait:
      return NotSupported("a graph node of an external semaphore");
    default:
      return cudaErrorInvalidValue;
  }
}

namespace {

// Before CUDA 13, there was no parameter `edges`, and the parameters after it came earlier.
void MoveUp(const cudaGraphEdgeData** edges, std::size_t* count, cudaGraphNodeParams** parameters) {
  *parameters = HandleOf<cudaGraphNodeParams*>(*count);
  *count = NumberOf(*edges);
  *edges = nullptr;
}

Error Add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
          const cudaGraphEdgeData* edges, std::size_t count, cudaGraphNodeParams* parameters) {
  if (!AreEdges(edges, count) || (parameters != nullptr && !IsReservedClear(*parameters)))
    return cudaErrorInvalidValue;
  switch (parameters == nullptr ? cudaGraphNodeTypeEmpty : parameters->type) {
    case cudaGraphNodeTypeConditional:
      return AddConditional(node, graph, dependencies, count, &parameters->conditional);
    case cudaGraphNodeTypeMemAlloc:
      return AddAllocation(node, graph, dependencies, count, &parameters->alloc);
    case cudaGraphNodeTypeMemFree:
      return AddFree(node, graph, dependencies, count, parameters->free.dptr);
    case cudaGraphNodeTypeGraph:
      return AddChildNode(node, graph, dependencies, count, parameters->graph.graph,
                          parameters->graph.ownership);
    default:
      return AddDescribed(node, graph, dependencies, count,
                          [&](Work* work) { return DescribeWork(parameters, work); });
  }
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_SINCE_13(cudaGraphAddNode,
                       (cudaGraphNode_t * node, cudaGraph_t graph,
                        const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                        std::size_t count, cudaGraphNodeParams* parameters),
                       MoveUp(&edges, &count, &parameters), Answer([&] {
                         return Add(node, graph, dependencies, edges, count, parameters);
                       }))

CUSPAN_EXPORT cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node,
                                                 cudaGraphNodeParams* parameters) {
  return Answer([&] {
    return SetDescribed(node, [&](Work* work) { return DescribeWork(parameters, work); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     cudaGraphNodeParams* parameters) {
  return Answer([&] {
    return SetDescribed(exec, node, [&](Work* work) { return DescribeWork(parameters, work); });
  });
}

CUSPAN_EXPORT_NODE(cudaGraphAddKernelNode, cudaGraphKernelNodeSetParams,
                   cudaGraphExecKernelNodeSetParams, DescribeWork(parameters, work),
                   const cudaKernelNodeParams* parameters)

CUSPAN_EXPORT_NODE(cudaGraphAddMemcpyNode, cudaGraphMemcpyNodeSetParams,
                   cudaGraphExecMemcpyNodeSetParams,
                   UnlessFaulted([&] { return DescribeWork(parameters, work); }),
                   const cudaMemcpy3DParms* parameters)

CUSPAN_EXPORT_NODE(cudaGraphAddMemcpyNode1D, cudaGraphMemcpyNodeSetParams1D,
                   cudaGraphExecMemcpyNodeSetParams1D, UnlessFaulted([&] {
                     return DescribeRun(destination, source, bytes, kind, work);
                   }),
                   void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind)

CUSPAN_EXPORT_NODE(cudaGraphAddMemsetNode, cudaGraphMemsetNodeSetParams,
                   cudaGraphExecMemsetNodeSetParams,
                   UnlessFaulted([&] { return DescribeWork(parameters, work); }),
                   const cudaMemsetParams* parameters)

CUSPAN_EXPORT_NODE(cudaGraphAddHostNode, cudaGraphHostNodeSetParams, cudaGraphExecHostNodeSetParams,
                   DescribeWork(parameters, work), const cudaHostNodeParams* parameters)

CUSPAN_EXPORT_NODE(cudaGraphAddEventRecordNode, cudaGraphEventRecordNodeSetEvent,
                   cudaGraphExecEventRecordNodeSetEvent, DescribeEvent<RecordWork>(event, work),
                   cudaEvent_t event)

CUSPAN_EXPORT_NODE(cudaGraphAddEventWaitNode, cudaGraphEventWaitNodeSetEvent,
                   cudaGraphExecEventWaitNodeSetEvent, DescribeEvent<WaitWork>(event, work),
                   cudaEvent_t event)

CUSPAN_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                std::size_t count) {
  return Answer([&] { return AddNode(node, graph, dependencies, count, EmptyWork{}); });
}

CUSPAN_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count, cudaGraph_t child) {
  return Answer([&] {
    return AddDescribed(node, graph, dependencies, count,
                        [&](Work* work) { return DescribeChild(child, work); });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec,
                                                               cudaGraphNode_t node,
                                                               cudaGraph_t child) {
  return Answer([&] { return SetExecChild(exec, node, child); });
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

// Defines a function filling *out from the `work` of a node of type Kind.
#define CUSPAN_EXPORT_GET(function, Kind, Out, ...)                                               \
  CUSPAN_EXPORT cudaError_t function(cudaGraphNode_t node, Out* out) {                            \
    return Answer([&] {                                                                           \
      return WithWork<Kind>(node, out, [&]([[maybe_unused]] GraphNode& there, const Kind& work) { \
        *out = __VA_ARGS__;                                                                       \
      });                                                                                         \
    });                                                                                           \
  }

CUSPAN_EXPORT_GET(cudaGraphKernelNodeGetParams, KernelWork, cudaKernelNodeParams,
                  ParametersOf(there, work))
CUSPAN_EXPORT_GET(cudaGraphMemsetNodeGetParams, SetWork, cudaMemsetParams,
                  SameBytes<cudaMemsetParams>(work.parameters))
CUSPAN_EXPORT_GET(cudaGraphHostNodeGetParams, HostWork, cudaHostNodeParams,
                  {work.call.function, work.call.data})
CUSPAN_EXPORT_GET(cudaGraphChildGraphNodeGetGraph, ChildWork, cudaGraph_t, HandleOf(*work.graph))
CUSPAN_EXPORT_GET(cudaGraphEventRecordNodeGetEvent, RecordWork, cudaEvent_t, work.event)
CUSPAN_EXPORT_GET(cudaGraphEventWaitNodeGetEvent, WaitWork, cudaEvent_t, work.event)
CUSPAN_EXPORT_GET(cudaGraphMemAllocNodeGetParams, AllocateWork, cudaMemAllocNodeParams,
                  SameBytes<cudaMemAllocNodeParams>(work.parameters))

CUSPAN_EXPORT cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* memory) {
  return Answer([&] {
    return WithWork<FreeWork>(node, memory, [&](GraphNode&, const FreeWork& work) {
      *static_cast<void**>(memory) = work.memory;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemcpy3DParms* parameters) {
  return Answer([&] {
    return WithSession([&](Session& session) {
      return WithWork<CopyWork>(node, parameters, [&](GraphNode&, const CopyWork& work) {
        *parameters = ParametersOf(session, work.box);
      });
    });
  });
}

// Added by CUDA releases 13.1 and later, so not declared by the header of 13.0.
CUSPAN_EXPORT cudaError_t cudaGraphNodeGetParams(cudaGraphNode_t node,
                                                 cudaGraphNodeParams* parameters) {
  return Answer([&]() -> Error {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) {
      return WithNode(node, [&](Graphs&, const NodeInGraph& place) -> Error {
        *parameters = {};
        parameters->type = static_cast<cudaGraphNodeType>(TypeOf(place.node->work));
        return std::visit(ReportParameters{session, *place.node, parameters}, place.node->work);
      });
    });
  });
}
