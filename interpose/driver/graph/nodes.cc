// Nodes of graphs: adding them, and the parameters of each kind.
#include "interpose/calls/graph/nodes.h"

#include <vector>

#include "interpose/calls/execution/conditions.h"
#include "interpose/calls/execution/exec.h"
#include "interpose/calls/graph/attributes.h"
#include "interpose/calls/graph/memory_nodes.h"
#include "interpose/calls/graph/structure.h"
#include "interpose/calls/memory_batch.h"
#include "interpose/driver/copy_box.h"
#include "interpose/driver/launch.h"

namespace cuspan {
namespace {

// Two versions of kernel parameters: the first has no member `kern`.
template <typename Parameters>
Error DescribeWork(const Parameters* parameters, Work* work) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUfunction function = parameters->func;
  if constexpr (requires { parameters->kern; }) {
    if (function == nullptr) function = reinterpret_cast<CUfunction>(parameters->kern);
  }
  LaunchCall call;
  call.shape = {{parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ},
                {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ},
                parameters->sharedMemBytes};
  CUSPAN_RETURN_IF_FAILED(ReadFunction(function, &call));
  CUSPAN_RETURN_IF_FAILED(ReadArguments(parameters->kernelParams, parameters->extra, &call));
  return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
    return DescribeKernel(session.devices().description(connection.device()), connection, call,
                          work);
  });
}

// Unlike a copy call, a node needs valid memory types even if it copies nothing.
bool HasKinds(const CUDA_MEMCPY3D& copy) {
  const auto is_kind = [](CUmemorytype kind) {
    return kind >= CU_MEMORYTYPE_HOST && kind <= CU_MEMORYTYPE_UNIFIED;
  };
  return is_kind(copy.srcMemoryType) && is_kind(copy.dstMemoryType);
}

Error DescribeWork(const CUDA_MEMCPY3D* parameters, Work* work) {
  if (parameters == nullptr || !HasKinds(*parameters)) return CUDA_ERROR_INVALID_VALUE;
  BoxRequest box;
  CUSPAN_RETURN_IF_FAILED(BoxOf(*parameters, &box));
  return DescribeCopy(box, work);
}

Error DescribeWork(const CUDA_MEMSET_NODE_PARAMS* parameters, Work* work) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return DescribeSet(*parameters, work);
}

Error DescribeWork(const CUDA_HOST_NODE_PARAMS* parameters, Work* work) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return DescribeHost({parameters->fn, parameters->userData}, work);
}

Error DescribeWork(const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters, Work* work) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return DescribeMemoryBatch(*parameters, work);
}

// All node types of cuGraphAddNode, except those needing a NewNode.
Error DescribeWork(CUgraphNodeParams* parameters, Work* work) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return DescribeWork(&parameters->kernel, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return DescribeWork(&parameters->memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& p = parameters->memset;
      return DescribeSet({p.dst, p.pitch, p.value, p.elementSize, p.width, p.height}, work);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return DescribeHost({parameters->host.fn, parameters->host.userData}, work);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return DescribeChild(parameters->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *work = EmptyWork{};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return DescribeEvent<WaitWork>(parameters->eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return DescribeEvent<RecordWork>(parameters->eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const auto& p = parameters->memOp;
      return DescribeMemoryBatch({p.ctx, p.count, p.paramArray, p.flags}, work);
    }
    // CUDA does not allow changes to these nodes.
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return NotSupported("a graph node of an external semaphore");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Parameters: one of two structures with the same members in different order.
template <typename Parameters>
Error AddAllocation(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                    std::size_t count, Parameters* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) -> Error {
    CUDA_MEM_ALLOC_NODE_PARAMS given{};
    given.poolProps = parameters->poolProps;
    given.accessDescs = parameters->accessDescs;
    given.accessDescCount = parameters->accessDescCount;
    given.bytesize = parameters->bytesize;
    CUSPAN_RETURN_IF_FAILED(DescribeAllocation(place, &given, work));
    parameters->dptr = given.dptr;
    return CUDA_SUCCESS;
  });
}

Error AddFree(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
              CUdeviceptr memory) {
  return AddNode(node, graph, dependencies, count, [&](const NewNode& place, Work* work) {
    return DescribeFree(place, HandleOf<void*>(memory), work);
  });
}

Error Add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
          CUgraphNodeParams* parameters) {
  if (parameters != nullptr && !IsReservedClear(*parameters)) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters == nullptr ? CU_GRAPH_NODE_TYPE_EMPTY : parameters->type) {
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return AddConditionalNode(node, graph, dependencies, count, &parameters->conditional);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return AddAllocation(node, graph, dependencies, count, &parameters->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return AddFree(node, graph, dependencies, count, parameters->free.dptr);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return AddChildNode(node, graph, dependencies, count, parameters->graph.graph,
                          parameters->graph.ownership);
    default:
      return AddDescribed(node, graph, dependencies, count,
                          [&](Work* work) { return DescribeWork(parameters, work); });
  }
}

// Checks the node's type before its new parameters.
template <typename Kind, typename Describe>
Error SetKind(CUgraphNode node, Describe&& describe) {
  CUSPAN_RETURN_IF_FAILED(WithWork<Kind>(node, node, [](GraphNode&, const Kind&) {}));
  return SetDescribed(node, describe);
}

template <typename Parameters>
void ReportKernel(GraphNode& node, const KernelWork& work, Parameters* out) {
  *out = {};
  out->func = HandleOf<CUfunction>(NumberOf(work.function->handle));
  out->gridDimX = work.grid.x;
  out->gridDimY = work.grid.y;
  out->gridDimZ = work.grid.z;
  out->blockDimX = work.block.x;
  out->blockDimY = work.block.y;
  out->blockDimZ = work.block.z;
  out->sharedMemBytes = work.dynamic_shared;
  out->kernelParams = node.ExposeArguments(work);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

// Defines functions to add a node of type Kind to a graph, to change it there, and to change it in
// an instantiated graph. `describe` fills the Work* `work` from `parameter`, common to all three.
#define CUSPAN_EXPORT_NODE(add, set, set_in_exec, Kind, describe, parameter)                       \
  CUSPAN_EXPORT CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,    \
                             std::size_t count, parameter) {                                       \
    return AnswerInContext([&](Session&, ContextConnection&) {                                     \
      return AddDescribed(node, graph, dependencies, count, [&](Work* work) { return describe; }); \
    });                                                                                            \
  }                                                                                                \
  CUSPAN_EXPORT CUresult set(CUgraphNode node, parameter) {                                        \
    return AnswerInContext([&](Session&, ContextConnection&) {                                     \
      return SetKind<Kind>(node, [&](Work* work) { return describe; });                            \
    });                                                                                            \
  }                                                                                                \
  CUSPAN_EXPORT CUresult set_in_exec(CUgraphExec exec, CUgraphNode node, parameter) {              \
    return AnswerInContext([&](Session&, ContextConnection&) {                                     \
      return SetDescribed(exec, node, [&](Work* work) { return describe; });                       \
    });                                                                                            \
  }

// Same, for types with a context parameter in `add` and `set_in_exec`. The current context is used.
#define CUSPAN_EXPORT_NODE_IN(add, set, set_in_exec, parameter)                                    \
  CUSPAN_EXPORT CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,    \
                             std::size_t count, parameter, CUcontext /*context*/) {                \
    return AnswerInContext([&](Session&, ContextConnection&) {                                     \
      return AddDescribed(node, graph, dependencies, count,                                        \
                          [&](Work* work) { return DescribeWork(parameters, work); });             \
    });                                                                                            \
  }                                                                                                \
  CUSPAN_EXPORT CUresult set(CUgraphNode node, parameter) {                                        \
    return AnswerInContext([&](Session&, ContextConnection&) {                                     \
      return SetDescribed(node, [&](Work* work) { return DescribeWork(parameters, work); });       \
    });                                                                                            \
  }                                                                                                \
  CUSPAN_EXPORT CUresult set_in_exec(CUgraphExec exec, CUgraphNode node, parameter,                \
                                     CUcontext /*context*/) {                                      \
    return AnswerInContext([&](Session&, ContextConnection&) {                                     \
      return SetDescribed(exec, node, [&](Work* work) { return DescribeWork(parameters, work); }); \
    });                                                                                            \
  }

// Defines a function filling *out from the `work` of a node of type Kind.
#define CUSPAN_EXPORT_GET(function, Kind, Out, ...)                                              \
  CUSPAN_EXPORT CUresult function(CUgraphNode node, Out* out) {                                  \
    return AnswerWithDriver([&](Session&) {                                                      \
      return WithWork<Kind>(                                                                     \
          node, out, [&]([[maybe_unused]] GraphNode& there, const Kind& work) { __VA_ARGS__; }); \
    });                                                                                          \
  }

CUSPAN_EXPORT_NODE(cuGraphAddKernelNode_v2, cuGraphKernelNodeSetParams_v2,
                   cuGraphExecKernelNodeSetParams_v2, KernelWork, DescribeWork(parameters, work),
                   const CUDA_KERNEL_NODE_PARAMS_v2* parameters)
CUSPAN_EXPORT_GET(cuGraphKernelNodeGetParams_v2, KernelWork, CUDA_KERNEL_NODE_PARAMS_v2,
                  ReportKernel(there, work, out))
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphKernelNodeGetParams
CUSPAN_EXPORT_NODE(cuGraphAddKernelNode, cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams,
                   KernelWork, DescribeWork(parameters, work),
                   const CUDA_KERNEL_NODE_PARAMS_v1* parameters)
CUSPAN_EXPORT_GET(cuGraphKernelNodeGetParams, KernelWork, CUDA_KERNEL_NODE_PARAMS_v1,
                  ReportKernel(there, work, out))

CUSPAN_EXPORT_NODE_IN(cuGraphAddMemcpyNode, cuGraphMemcpyNodeSetParams,
                      cuGraphExecMemcpyNodeSetParams, const CUDA_MEMCPY3D* parameters)
CUSPAN_EXPORT_GET(cuGraphMemcpyNodeGetParams, CopyWork, CUDA_MEMCPY3D,
                  *out = ParametersOf(work.box))

CUSPAN_EXPORT_NODE_IN(cuGraphAddMemsetNode, cuGraphMemsetNodeSetParams,
                      cuGraphExecMemsetNodeSetParams, const CUDA_MEMSET_NODE_PARAMS* parameters)
CUSPAN_EXPORT_GET(cuGraphMemsetNodeGetParams, SetWork, CUDA_MEMSET_NODE_PARAMS,
                  *out = work.parameters)

CUSPAN_EXPORT_NODE(cuGraphAddHostNode, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams,
                   HostWork, DescribeWork(parameters, work),
                   const CUDA_HOST_NODE_PARAMS* parameters)
CUSPAN_EXPORT_GET(cuGraphHostNodeGetParams, HostWork, CUDA_HOST_NODE_PARAMS,
                  *out = {work.call.function, work.call.data})

CUSPAN_EXPORT_NODE(cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeSetParams,
                   cuGraphExecBatchMemOpNodeSetParams, MemoryBatchWork,
                   DescribeWork(parameters, work), const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters)
CUSPAN_EXPORT_GET(cuGraphBatchMemOpNodeGetParams, MemoryBatchWork, CUDA_BATCH_MEM_OP_NODE_PARAMS,
                  *out = {work.context, static_cast<unsigned>(work.operations.size()),
                          static_cast<CUstreamBatchMemOpParams*>(
                              there.Expose(0, std::as_bytes(std::span(work.operations)))),
                          0})

CUSPAN_EXPORT_NODE(cuGraphAddEventRecordNode, cuGraphEventRecordNodeSetEvent,
                   cuGraphExecEventRecordNodeSetEvent, RecordWork,
                   DescribeEvent<RecordWork>(event, work), CUevent event)
CUSPAN_EXPORT_GET(cuGraphEventRecordNodeGetEvent, RecordWork, CUevent, *out = work.event)

CUSPAN_EXPORT_NODE(cuGraphAddEventWaitNode, cuGraphEventWaitNodeSetEvent,
                   cuGraphExecEventWaitNodeSetEvent, WaitWork, DescribeEvent<WaitWork>(event, work),
                   CUevent event)
CUSPAN_EXPORT_GET(cuGraphEventWaitNodeGetEvent, WaitWork, CUevent, *out = work.event)

CUSPAN_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, std::size_t count) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return AddNode(node, graph, dependencies, count, EmptyWork{});
  });
}

CUSPAN_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph,
                                                const CUgraphNode* dependencies, std::size_t count,
                                                CUgraph child) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return AddDescribed(node, graph, dependencies, count,
                        [&](Work* work) { return DescribeChild(child, work); });
  });
}
CUSPAN_EXPORT_GET(cuGraphChildGraphNodeGetGraph, ChildWork, CUgraph, *out = HandleOf(*work.graph))

CUSPAN_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                          CUgraph child) {
  return AnswerInContext(
      [&](Session&, ContextConnection&) { return SetExecChild(exec, node, child); });
}

CUSPAN_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* dependencies, std::size_t count,
                                              CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return AddAllocation(node, graph, dependencies, count, parameters);
  });
}
CUSPAN_EXPORT_GET(cuGraphMemAllocNodeGetParams, AllocateWork, CUDA_MEM_ALLOC_NODE_PARAMS,
                  *out = work.parameters)

CUSPAN_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* dependencies, std::size_t count,
                                             CUdeviceptr memory) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return AddFree(node, graph, dependencies, count, memory);
  });
}
CUSPAN_EXPORT_GET(cuGraphMemFreeNodeGetParams, FreeWork, CUdeviceptr, *out = NumberOf(work.memory))

// --- All node types

CUSPAN_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph,
                                         const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* edges, std::size_t count,
                                         CUgraphNodeParams* parameters) {
  return AnswerInContext([&](Session&, ContextConnection&) -> Error {
    if (!AreEdges(edges, count)) return CUDA_ERROR_INVALID_VALUE;
    return Add(node, graph, dependencies, count, parameters);
  });
}
#undef cuGraphAddNode
CUSPAN_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies, std::size_t count,
                                      CUgraphNodeParams* parameters) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return Add(node, graph, dependencies, count, parameters);
  });
}

CUSPAN_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return SetDescribed(node, [&](Work* work) { return DescribeWork(parameters, work); });
  });
}

CUSPAN_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                CUgraphNodeParams* parameters) {
  return AnswerInContext([&](Session&, ContextConnection&) {
    return SetDescribed(exec, node, [&](Work* work) { return DescribeWork(parameters, work); });
  });
}

CUSPAN_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle,
                                                      CUgraph graph, CUcontext /*context*/,
                                                      unsigned value, unsigned flags) {
  return AnswerInContext(
      [&](Session&, ContextConnection&) { return CreateCondition(handle, graph, value, flags); });
}

// --- Attributes of kernels

CUSPAN_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                                     CUkernelNodeAttrValue* value) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return GetNodeAttribute(node, attribute, value);
  });
}

CUSPAN_EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                                     const CUkernelNodeAttrValue* value) {
  return AnswerWithDriver([&](Session&) -> Error {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return SetNodeAttribute(node, attribute, *value);
  });
}

CUSPAN_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return AnswerWithDriver([&](Session&) { return CopyNodeAttributes(to, from); });
}
