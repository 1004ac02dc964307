// Null handles. Drivers may interpret them or not. Each call is independent.
#include "group.h"

namespace {

int number;
unsigned count;
std::size_t bytes;
unsigned long long id;
float milliseconds;
CUdeviceptr address;
CUfunction function;
CUkernel kernel;
CUmodule module;
CUlibrary library;
CUarray array;
CUevent event;
CUgraph graph;
CUgraphExec exec;
CUgraphNode node;
CUgraphNodeType type;
CUipcEventHandle event_handle;
CUmemAccess_flags access;
CUmemAllocationProp properties;
CUmemLocation location;
CUDA_ARRAY_DESCRIPTOR shape;
CUDA_RESOURCE_DESC resource;
CUDA_TEXTURE_DESC sampling;
CUlaunchConfig config;

}  // namespace

void NullHandles() {
  StartContext();
  BAD(cuModuleUnload(nullptr));
  BAD(cuModuleGetFunction(&function, nullptr, "kernel"));
  BAD(cuModuleGetGlobal(&address, &bytes, nullptr, "counter"));
  BAD(cuModuleGetFunctionCount(&count, nullptr));
  BAD(cuLibraryUnload(nullptr));
  BAD(cuLibraryGetModule(&module, nullptr));
  BAD(cuLibraryGetKernel(&kernel, nullptr, "kernel"));
  BAD(cuLibraryGetKernelCount(&count, nullptr));
  BAD(cuLibraryGetGlobal(&address, &bytes, nullptr, "counter"));
  BAD(cuKernelGetFunction(&function, nullptr));
  BAD(cuKernelGetLibrary(&library, nullptr));
  BAD(cuKernelGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr, 0));
  BAD(cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr));
  BAD(cuFuncSetCacheConfig(nullptr, CU_FUNC_CACHE_PREFER_L1));
  BAD(cuFuncGetModule(&module, nullptr));
  BAD(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  BAD(cuLaunchKernelEx(&config, nullptr, nullptr, nullptr));
  BAD(cuLaunchKernelEx(nullptr, nullptr, nullptr, nullptr));
  BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, nullptr, 128, 0));
  BAD(cuLinkComplete(nullptr, nullptr, &bytes));
  BAD(cuLinkDestroy(nullptr));
  BAD(cuArrayDestroy(nullptr));
  BAD(cuArrayGetDescriptor(&shape, nullptr));
  BAD(cuMipmappedArrayDestroy(nullptr));
  BAD(cuMipmappedArrayGetLevel(&array, nullptr, 0));
  BAD(cuTexObjectDestroy(0));
  BAD(cuTexObjectGetResourceDesc(&resource, 0));
  BAD(cuTexObjectGetTextureDesc(&sampling, 0));
  BAD(cuSurfObjectDestroy(0));
  BAD(cuSurfObjectGetResourceDesc(&resource, 0));
  BAD(cuStreamDestroy(nullptr));
  BAD(cuStreamWaitEvent(nullptr, nullptr, 0));
  BAD(cuEventDestroy(nullptr));
  BAD(cuEventRecord(nullptr, nullptr));
  BAD(cuEventQuery(nullptr));
  BAD(cuEventSynchronize(nullptr));
  BAD(cuEventElapsedTime(&milliseconds, nullptr, nullptr));
  BAD(cuIpcGetEventHandle(&event_handle, nullptr));
  BAD(cuMemRelease(0));
  BAD(cuMemMap(0, 2 << 20, 0, 0, 0));
  BAD(cuMemGetAllocationPropertiesFromHandle(&properties, 0));
  BAD(cuMemPoolDestroy(nullptr));
  BAD(cuMemPoolTrimTo(nullptr, 0));
  BAD(cuMemPoolGetAttribute(nullptr, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &id));
  BAD(cuMemPoolGetAccess(&access, nullptr, &location));
  BAD(cuMemAllocFromPoolAsync(&address, 16, nullptr, nullptr));
  BAD(cuDeviceSetMemPool(0, nullptr));
  BAD(cuDevicePrimaryCtxGetState(0, nullptr, &number));
  BAD(cuMemGetInfo(nullptr, nullptr));
  BAD(cuGraphDestroy(nullptr));
  BAD(cuGraphClone(&graph, nullptr));
  BAD(cuGraphAddEmptyNode(&node, nullptr, nullptr, 0));
  BAD(cuGraphGetNodes(nullptr, nullptr, &bytes));
  BAD(cuGraphNodeGetType(nullptr, &type));
  BAD(cuGraphDestroyNode(nullptr));
  BAD(cuGraphEventRecordNodeGetEvent(nullptr, &event));
  BAD(cuGraphInstantiate(&exec, nullptr, 0));
  BAD(cuGraphLaunch(nullptr, nullptr));
  BAD(cuGraphUpload(nullptr, nullptr));
  BAD(cuGraphExecDestroy(nullptr));
  BAD(cuGraphExecUpdate(nullptr, nullptr, nullptr));
  BAD(cuUserObjectRelease(nullptr, 1));
}
