// Graphs: their structure, their nodes and their executable graphs.
#include "group.h"

namespace {

void Nothing(void* /*data*/) {}

CUDA_KERNEL_NODE_PARAMS OneThread(CUfunction kernel, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = kernel;
  node.gridDimX = node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = arguments;
  return node;
}

CUDA_MEMSET_NODE_PARAMS Set(CUdeviceptr memory) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = memory;
  set.elementSize = 4;
  set.width = 4;
  set.height = 1;
  return set;
}

CUgraph MakeGraph() {
  CUgraph graph = nullptr;
  DRIVER(cuGraphCreate(&graph, 0));
  return graph;
}

CUgraphNode Empty(CUgraph graph) {
  CUgraphNode node = nullptr;
  DRIVER(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  return node;
}

}  // namespace

void Graphs() {
  StartContext();
  const CUgraph graph = MakeGraph();
  const CUgraph other = MakeGraph();
  const CUgraphNode first = Empty(graph);
  const CUgraphNode second = Empty(graph);
  const CUgraphNode foreign = Empty(other);
  const CUgraphNode null_node = nullptr;
  CUgraph made = nullptr;
  CUgraphNode node = nullptr;
  CUuserObject object = nullptr;
  CUgraphConditionalHandle condition = 0;
  int value = 0;
  CUgraphNode list[2] = {};
  CUgraphNode targets[2] = {};
  CUgraphEdgeData data[2] = {};
  std::size_t none = 0;
  std::size_t room = 2;
  BAD(cuGraphGetNodes(graph, list, &none));
  BAD(cuGraphGetRootNodes(graph, list, &none));
  BAD(cuGraphGetEdges(graph, list, targets, nullptr, &none));
  BAD(cuGraphGetEdges(graph, nullptr, nullptr, data, &room));
  BAD(cuGraphNodeGetDependencies(first, list, nullptr, &none));
  BAD(cuGraphNodeGetDependencies(first, nullptr, data, &room));
  BAD(cuGraphNodeGetDependentNodes(first, list, nullptr, &none));
  BAD(cuGraphNodeGetDependentNodes(first, nullptr, data, &room));
  std::size_t count = 1;
  BAD(cuGraphCreate(nullptr, 0));
  BAD(cuGraphCreate(&made, 1));
  BAD(cuGraphClone(nullptr, graph));
  BAD(cuGraphAddEmptyNode(nullptr, graph, nullptr, 0));
  BAD(cuGraphAddEmptyNode(&node, graph, nullptr, 1));
  BAD(cuGraphAddEmptyNode(&node, graph, &null_node, 1));
  BAD(cuGraphAddEmptyNode(&node, graph, &foreign, 1));
  const CUgraphNode twice[] = {first, first};
  BAD(cuGraphAddEmptyNode(&node, graph, twice, 2));
  BAD(cuGraphAddDependencies(graph, nullptr, nullptr, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &first, nullptr, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &first, &first, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &first, &foreign, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &foreign, &first, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &null_node, &first, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &first, &second, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &first, &second, nullptr, 1));
  BAD(cuGraphAddDependencies(graph, &second, &first, nullptr, 1));
  BAD(cuGraphRemoveDependencies(graph, nullptr, nullptr, nullptr, 1));
  BAD(cuGraphRemoveDependencies(graph, &second, &first, nullptr, 1));
  BAD(cuGraphRemoveDependencies(graph, &first, &second, nullptr, 1));
  BAD(cuGraphRemoveDependencies(graph, &first, &second, nullptr, 1));
  CUgraphEdgeData edge{};
  edge.type = 99;
  BAD(cuGraphAddDependencies(graph, &first, &second, &edge, 1));
  BAD(cuGraphGetNodes(graph, nullptr, nullptr));
  BAD(cuGraphGetRootNodes(graph, nullptr, nullptr));
  BAD(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, nullptr));
  BAD(cuGraphNodeGetDependencies(first, nullptr, nullptr, nullptr));
  BAD(cuGraphNodeGetDependentNodes(first, nullptr, nullptr, nullptr));
  BAD(cuGraphGetEdges(graph, &node, nullptr, nullptr, &count));
  BAD(cuGraphNodeGetType(first, nullptr));
  BAD(cuGraphNodeFindInClone(nullptr, first, other));
  BAD(cuGraphNodeFindInClone(&node, first, other));
  BAD(cuGraphAddChildGraphNode(nullptr, graph, nullptr, 0, other));
  FATAL(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, graph));
  BAD(cuGraphDebugDotPrint(graph, nullptr, 0));
  BAD(cuGraphDebugDotPrint(graph, "/nonexistent/folder/graph.dot", 0));
  BAD(cuGraphConditionalHandleCreate(nullptr, graph, nullptr, 0, 0));
  BAD(cuGraphConditionalHandleCreate(&condition, graph, nullptr, 0, 99));
  BAD(cuUserObjectCreate(nullptr, &value, Nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  BAD(cuUserObjectCreate(&object, &value, nullptr, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  BAD(cuUserObjectCreate(&object, &value, Nothing, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  BAD(cuUserObjectCreate(&object, &value, Nothing, 1, 0));
  BAD(cuUserObjectCreate(&object, &value, Nothing, 1, 99));
  DRIVER(cuUserObjectCreate(&object, &value, Nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  BAD(cuUserObjectRetain(object, 0));
  BAD(cuUserObjectRelease(object, 0));
  BAD(cuGraphRetainUserObject(graph, object, 0, 0));
  BAD(cuGraphRetainUserObject(graph, object, 1, 99));
  BAD(cuGraphReleaseUserObject(graph, object, 0));
}

void GraphNodes() {
  const CUcontext context = StartContext();
  const CUfunction kernel = LoadCode().kernel;
  const CUgraph graph = MakeGraph();
  const CUgraphNode empty = Empty(graph);
  CUgraphNode node = nullptr;
  CUdeviceptr memory = 0;
  CUdeviceptr freed = 0;
  CUgraph child = nullptr;
  CUevent event = nullptr;
  unsigned count = 0;
  void* arguments[] = {&memory, &count, &count};
  CUDA_KERNEL_NODE_PARAMS launch{};
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  CUgraphNodeParams any{};
  DRIVER(cuMemAlloc(&memory, 4096));
  BAD(cuGraphKernelNodeGetParams(empty, &launch));
  BAD(cuGraphKernelNodeSetParams(empty, &launch));
  BAD(cuGraphMemcpyNodeGetParams(empty, &copy));
  BAD(cuGraphMemsetNodeGetParams(empty, &set));
  BAD(cuGraphHostNodeGetParams(empty, &host));
  BAD(cuGraphChildGraphNodeGetGraph(empty, &child));
  BAD(cuGraphEventRecordNodeGetEvent(empty, &event));
  BAD(cuGraphEventWaitNodeGetEvent(empty, &event));
  BAD(cuGraphMemAllocNodeGetParams(empty, &alloc));
  BAD(cuGraphMemFreeNodeGetParams(empty, &freed));
  BAD(cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr));
  BAD(cuGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  launch = OneThread(kernel, arguments);
  BAD(cuGraphAddKernelNode(nullptr, graph, nullptr, 0, &launch));
  launch.gridDimX = 0;
  BAD_AS("cuGraphAddKernelNode of no blocks",
         cuGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  launch = OneThread(kernel, arguments);
  launch.blockDimX = 2048;
  BAD_AS("cuGraphAddKernelNode of too many threads",
         cuGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  launch = OneThread(kernel, nullptr);
  BAD_AS("cuGraphAddKernelNode without arguments",
         cuGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  launch = OneThread(kernel, arguments);
  DRIVER(cuGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  BAD(cuGraphKernelNodeGetParams(node, nullptr));
  BAD(cuGraphKernelNodeSetParams(node, nullptr));
  BAD(cuGraphMemsetNodeGetParams(node, &set));
  BAD(cuGraphKernelNodeCopyAttributes(node, empty));
  BAD(cuGraphAddMemsetNode(&node, graph, nullptr, 0, nullptr, context));
  BAD(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  set = Set(memory);
  BAD(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, nullptr));
  BAD(cuGraphAddMemsetNode(nullptr, graph, nullptr, 0, &set, context));
  set.elementSize = 3;
  BAD_AS("cuGraphAddMemsetNode of 3 bytes",
         cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  set = Set(memory + 2);
  BAD_AS("cuGraphAddMemsetNode in between",
         cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  set = Set(memory);
  set.width = 0;
  BAD_AS("cuGraphAddMemsetNode of nothing",
         cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  set = Set(0);
  BAD_AS("cuGraphAddMemsetNode of no memory",
         cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  BAD(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, nullptr, context));
  BAD(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context));
  BAD(cuGraphAddHostNode(&node, graph, nullptr, 0, nullptr));
  BAD(cuGraphAddHostNode(&node, graph, nullptr, 0, &host));
  BAD(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, 0));
  BAD(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, memory));
  BAD(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, nullptr));
  BAD(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc));
  alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  BAD_AS("cuGraphAddMemAllocNode of nothing",
         cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc));
  alloc.bytesize = 4096;
  alloc.poolProps.location.id = 1000;
  BAD_AS("cuGraphAddMemAllocNode on no device",
         cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc));
  BAD(cuGraphAddNode(nullptr, graph, nullptr, nullptr, 0, &any));
  BAD(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr));
  any.type = Rubbish<CUgraphNodeType>(99);
  BAD_AS("cuGraphAddNode of an unknown type",
         cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &any));
  any.type = CU_GRAPH_NODE_TYPE_EMPTY;
  any.reserved0[0] = 1;
  BAD_AS("cuGraphAddNode with what is reserved",
         cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &any));
  BAD(cuGraphNodeSetParams(empty, nullptr));
}

void GraphExecs() {
  const CUcontext context = StartContext();
  const CUfunction kernel = LoadCode().kernel;
  const CUgraph graph = MakeGraph();
  CUgraphExec exec = nullptr;
  CUgraphExec out = nullptr;
  CUgraphNode node = nullptr;
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 4096));
  unsigned count = 0;
  unsigned enabled = 0;
  cuuint64_t flags = 0;
  void* arguments[] = {&memory, &count, &count};
  CUDA_KERNEL_NODE_PARAMS launch = OneThread(kernel, arguments);
  CUDA_MEMSET_NODE_PARAMS set = Set(memory);
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CUgraphExecUpdateResultInfo result{};
  DRIVER(cuGraphAddKernelNode(&node, graph, nullptr, 0, &launch));
  const CUgraphNode empty = Empty(graph);
  BAD(cuGraphInstantiate(nullptr, graph, 0));
  BAD(cuGraphInstantiate(&out, graph, 0x1000));
  BAD(cuGraphInstantiateWithParams(nullptr, graph, &parameters));
  BAD(cuGraphInstantiateWithParams(&out, graph, nullptr));
  parameters.flags = 0x1000;
  BAD_AS("cuGraphInstantiateWithParams, unknown flags",
         cuGraphInstantiateWithParams(&out, graph, &parameters));
  DRIVER(cuGraphInstantiate(&exec, graph, 0));
  const CUgraphNode later = Empty(graph);
  BAD(cuGraphExecGetFlags(exec, nullptr));
  BAD(cuGraphNodeGetEnabled(exec, node, nullptr));
  BAD(cuGraphNodeGetEnabled(exec, empty, &enabled));
  BAD(cuGraphNodeSetEnabled(exec, empty, 0));
  BAD(cuGraphNodeSetEnabled(exec, later, 0));
  BAD(cuGraphExecKernelNodeSetParams(exec, node, nullptr));
  BAD(cuGraphExecKernelNodeSetParams(exec, empty, &launch));
  BAD(cuGraphExecKernelNodeSetParams(exec, later, &launch));
  launch.gridDimX = 0;
  BAD_AS("cuGraphExecKernelNodeSetParams of no blocks",
         cuGraphExecKernelNodeSetParams(exec, node, &launch));
  launch.gridDimX = 1;
  launch.func = nullptr;
  BAD_AS("cuGraphExecKernelNodeSetParams of no kernel",
         cuGraphExecKernelNodeSetParams(exec, node, &launch));
  BAD(cuGraphExecMemsetNodeSetParams(exec, node, &set, context));
  BAD(cuGraphExecHostNodeSetParams(exec, node, &host));
  BAD(cuGraphExecUpdate(exec, graph, nullptr));
  BAD(cuGraphExecUpdate(exec, graph, &result));
  BAD(cuGraphExecGetFlags(exec, &flags));
  BAD(cuGraphLaunch(exec, nullptr));
  BAD(cuStreamSynchronize(nullptr));
}
