// After a fault of a kernel: each function of the runtime either reports the fault, independent of
// its subject, or works because it needs no context.
//
//   after_fault
#include <cuda_profiler_api.h>

#include <cstdint>

#include "check.h"

namespace {

int failures = 0;

__device__ int variable[16];

__global__ void Fault(int* nowhere) { *nowhere = 1; }

__global__ void Nothing(int*) {}

constexpr char kPtx[] = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry kernel(.param .u64 words) { ret; }
)";

#define RETURNS(expected, call)                                                          \
  do {                                                                                   \
    const cudaError_t returned = (call);                                                 \
    EXPECT(returned == (expected), "%s returned %s", #call, cudaGetErrorName(returned)); \
  } while (false)
#define REPORTS(call) RETURNS(cudaErrorIllegalAddress, call)
#define WORKS(call) RETURNS(cudaSuccess, call)

void HostFunction(void*) {}

void Callback(cudaStream_t, cudaError_t, void*) {}

alignas(4096) char host[8192];
char registered[4096];

// Objects made before the fault.
struct Objects {
  int* device = nullptr;
  int* other = nullptr;
  int* managed = nullptr;
  int* pinned = nullptr;
  int* pooled = nullptr;
  cudaStream_t stream = nullptr, second = nullptr, third = nullptr;
  cudaEvent_t event = nullptr, later = nullptr, unused = nullptr;
  cudaArray_t array = nullptr;
  cudaMipmappedArray_t mipmap = nullptr;
  cudaTextureObject_t texture = 0;
  cudaMemPool_t pool = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t empty = nullptr, kernel = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaLibrary_t library = nullptr;
  cudaUserObject_t object = nullptr;

  Objects() {
    CHECK(cudaMalloc(&device, 4096));
    CHECK(cudaMalloc(&other, 4096));
    CHECK(cudaMallocManaged(&managed, 4096));
    CHECK(cudaMallocHost(&pinned, 4096));
    CHECK(cudaMallocAsync(&pooled, 4096, nullptr));
    CHECK(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
    for (cudaStream_t* made : {&stream, &second, &third}) CHECK(cudaStreamCreate(made));
    for (cudaEvent_t* made : {&event, &later, &unused}) CHECK(cudaEventCreate(made));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventRecord(later, stream));
    const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &desc, 16, 16));
    CHECK(cudaMallocMipmappedArray(&mipmap, &desc, make_cudaExtent(16, 16, 0), 2));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc sampling = {};
    CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
    Launch launch;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, nullptr, 0, &launch.parameters));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaUserObjectCreate(&object, host, HostFunction, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaDeviceSynchronize());
  }

  // Parameters of a node launching Nothing.
  struct Launch {
    Launch() {
      parameters.func = reinterpret_cast<void*>(Nothing);
      parameters.gridDim = parameters.blockDim = dim3(1);
      parameters.kernelParams = arguments;
    }
    int* words = nullptr;
    void* arguments[1] = {&words};
    cudaKernelNodeParams parameters = {};
  };
};

void Device(const Objects&) {
  int value = 0, second = 0;
  unsigned flags = 0;
  size_t bytes = 0;
  char text[64];
  cudaDeviceProp properties;
  cudaMemPool_t pool = nullptr;
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  cudaFuncCache cache;
  WORKS(cudaGetDevice(&value));
  WORKS(cudaGetDeviceCount(&value));
  WORKS(cudaSetDevice(0));
  WORKS(cudaGetDeviceFlags(&flags));
  WORKS(cudaSetDeviceFlags(0));
  WORKS(cudaGetDeviceProperties(&properties, 0));
  WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  WORKS(cudaChooseDevice(&value, &properties));
  WORKS(cudaDeviceGetPCIBusId(text, sizeof text, 0));
  WORKS(cudaDeviceCanAccessPeer(&value, 0, 0));
  WORKS(cudaDeviceGetDefaultMemPool(&pool, 0));
  WORKS(cudaDeviceSetMemPool(0, pool));
  WORKS(cudaDeviceGetMemPool(&pool, 0));
  WORKS(cudaDeviceGetTexture1DLinearMaxWidth(&bytes, &desc, 0));
  WORKS(cudaDriverGetVersion(&value));
  WORKS(cudaRuntimeGetVersion(&value));
  REPORTS(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
  REPORTS(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  REPORTS(cudaDeviceGetCacheConfig(&cache));
  REPORTS(cudaDeviceSetCacheConfig(cudaFuncCachePreferNone));
  REPORTS(cudaDeviceGetStreamPriorityRange(&value, &second));
  REPORTS(cudaDeviceEnablePeerAccess(0, 0));
  REPORTS(cudaDeviceDisablePeerAccess(0));
  REPORTS(cudaCtxResetPersistingL2Cache());
  REPORTS(cudaProfilerStart());
  REPORTS(cudaProfilerStop());
  REPORTS(cudaDeviceSynchronize());
}

void Memory(const Objects& objects) {
  void* memory = nullptr;
  size_t pitch = 0, bytes = 0;
  unsigned flags = 0;
  int value = 0;
  unsigned long long number = 0;
  cudaArray_t array = nullptr;
  cudaPitchedPtr pitched;
  cudaExtent extent;
  cudaIpcMemHandle_t handle;
  cudaPointerAttributes attributes;
  cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
  const cudaMemLocation place = {cudaMemLocationTypeDevice, 0};
  WORKS(cudaPointerGetAttributes(&attributes, objects.device));
  WORKS(cudaPointerGetAttributes(&attributes, host));
  WORKS(cudaMemPoolGetAttribute(objects.pool, cudaMemPoolAttrReleaseThreshold, &number));
  WORKS(cudaMemPoolSetAttribute(objects.pool, cudaMemPoolAttrReleaseThreshold, &number));
  WORKS(cudaMemPoolTrimTo(objects.pool, 0));
  RETURNS(cudaErrorInvalidValue, cudaMalloc(static_cast<void**>(nullptr), 16));
  REPORTS(cudaMemGetInfo(&bytes, &pitch));
  REPORTS(cudaMalloc(&memory, 16));
  REPORTS(cudaMallocManaged(&memory, 16));
  REPORTS(cudaMallocHost(&memory, 16));
  REPORTS(cudaHostAlloc(&memory, 16, 0));
  REPORTS(cudaMallocPitch(&memory, &pitch, 16, 16));
  REPORTS(cudaMalloc3D(&pitched, make_cudaExtent(16, 2, 2)));
  REPORTS(cudaMallocArray(&array, &desc, 4, 4));
  REPORTS(cudaMalloc3DArray(&array, &desc, make_cudaExtent(4, 4, 4)));
  REPORTS(cudaMallocAsync(&memory, 16, objects.stream));
  REPORTS(cudaMallocFromPoolAsync(&memory, 16, objects.pool, objects.stream));
  REPORTS(cudaFreeAsync(objects.pooled, objects.stream));
  REPORTS(cudaFree(nullptr));
  REPORTS(cudaFree(reinterpret_cast<void*>(uintptr_t{0x1234})));
  REPORTS(cudaFreeHost(nullptr));
  REPORTS(cudaHostRegister(host, 4096, cudaHostRegisterDefault));
  REPORTS(cudaHostUnregister(registered));
  REPORTS(cudaHostGetDevicePointer(&memory, objects.pinned, 0));
  REPORTS(cudaHostGetFlags(&flags, objects.pinned));
  REPORTS(cudaGetSymbolAddress(&memory, variable));
  REPORTS(cudaGetSymbolSize(&bytes, variable));
  REPORTS(cudaMemAdvise(objects.managed, 4096, cudaMemAdviseSetReadMostly, place));
  REPORTS(cudaMemPrefetchAsync(objects.managed, 4096, place, 0, objects.stream));
  REPORTS(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly,
                                   objects.managed, 4096));
  REPORTS(cudaStreamAttachMemAsync(objects.stream, objects.managed, 0, cudaMemAttachGlobal));
  REPORTS(cudaArrayGetInfo(&desc, &extent, &flags, objects.array));
  REPORTS(cudaGetChannelDesc(&desc, objects.array));
  REPORTS(cudaArrayGetPlane(&array, objects.array, 0));
  REPORTS(cudaGetMipmappedArrayLevel(&array, objects.mipmap, 0));
  REPORTS(cudaIpcGetMemHandle(&handle, objects.device));
  REPORTS(cudaIpcCloseMemHandle(objects.device));
}

void CopiesAndSets(const Objects& objects) {
  int* const device = objects.device;
  const cudaStream_t stream = objects.stream;
  REPORTS(cudaMemcpy(device, host, 16, cudaMemcpyHostToDevice));
  REPORTS(cudaMemcpy(host, device, 16, cudaMemcpyDeviceToHost));
  REPORTS(cudaMemcpy(objects.other, device, 16, cudaMemcpyDeviceToDevice));
  REPORTS(cudaMemcpy(host, host + 64, 16, cudaMemcpyHostToHost));
  REPORTS(cudaMemcpy(device, host, 16, cudaMemcpyDefault));
  REPORTS(cudaMemcpyAsync(device, host, 16, cudaMemcpyHostToDevice, stream));
  REPORTS(cudaMemcpyAsync(objects.pinned, device, 16, cudaMemcpyDeviceToHost, stream));
  REPORTS(cudaMemcpy2D(device, 16, host, 16, 16, 2, cudaMemcpyHostToDevice));
  REPORTS(cudaMemcpy2DAsync(device, 16, host, 16, 16, 2, cudaMemcpyHostToDevice, stream));
  REPORTS(cudaMemcpy2DToArray(objects.array, 0, 0, host, 16, 16, 2, cudaMemcpyHostToDevice));
  REPORTS(cudaMemcpy2DFromArray(host, 16, objects.array, 0, 0, 16, 2, cudaMemcpyDeviceToHost));
  REPORTS(cudaMemcpyPeer(device, 0, objects.other, 0, 16));
  REPORTS(cudaMemcpyPeerAsync(device, 0, objects.other, 0, 16, stream));
  REPORTS(cudaMemcpyToSymbol(variable, host, 16));
  REPORTS(cudaMemcpyFromSymbol(host, variable, 16));
  REPORTS(cudaMemcpyToSymbolAsync(variable, host, 16, 0, cudaMemcpyHostToDevice, stream));
  REPORTS(cudaMemcpyFromSymbolAsync(host, variable, 16, 0, cudaMemcpyDeviceToHost, stream));
  REPORTS(cudaMemset(device, 0, 16));
  REPORTS(cudaMemset(objects.managed, 0, 16));
  REPORTS(cudaMemsetAsync(device, 0, 16, stream));
  REPORTS(cudaMemset2D(device, 16, 0, 16, 2));
  REPORTS(cudaMemset2DAsync(device, 16, 0, 16, 2, stream));
}

void Textures(const Objects& objects) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = objects.array;
  cudaTextureDesc sampling = {};
  cudaResourceViewDesc view;
  cudaTextureObject_t texture = 0;
  cudaSurfaceObject_t surface = 0;
  REPORTS(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  REPORTS(cudaCreateSurfaceObject(&surface, &resource));
  REPORTS(cudaGetTextureObjectResourceDesc(&resource, objects.texture));
  REPORTS(cudaGetTextureObjectTextureDesc(&sampling, objects.texture));
  REPORTS(cudaGetTextureObjectResourceViewDesc(&view, objects.texture));
  REPORTS(cudaDestroyTextureObject(objects.texture));
  REPORTS(cudaDestroySurfaceObject(0));
}

void StreamsAndEvents(const Objects& objects) {
  const cudaStream_t stream = objects.stream;
  cudaStream_t made = nullptr;
  cudaEvent_t event = nullptr;
  unsigned flags = 0;
  int value = 0;
  float milliseconds = 0;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  cudaIpcEventHandle_t handle;
  cudaStreamAttrValue attribute = {};
  cudaStreamCaptureStatus status;
  REPORTS(cudaStreamCreate(&made));
  REPORTS(cudaStreamCreateWithPriority(&made, 0, 0));
  REPORTS(cudaStreamSynchronize(stream));
  REPORTS(cudaStreamSynchronize(nullptr));
  REPORTS(cudaStreamQuery(stream));
  REPORTS(cudaStreamQuery(nullptr));
  REPORTS(cudaStreamGetFlags(stream, &flags));
  REPORTS(cudaStreamGetPriority(stream, &value));
  REPORTS(cudaStreamGetId(stream, &id));
  REPORTS(cudaStreamGetAttribute(stream, cudaStreamAttributePriority, &attribute));
  REPORTS(cudaStreamSetAttribute(stream, cudaStreamAttributePriority, &attribute));
  REPORTS(cudaStreamCopyAttributes(objects.second, stream));
  REPORTS(cudaStreamWaitEvent(stream, objects.event, 0));
  REPORTS(cudaStreamAddCallback(stream, Callback, nullptr, 0));
  REPORTS(cudaLaunchHostFunc(stream, HostFunction, nullptr));
  REPORTS(cudaStreamIsCapturing(stream, &status));
  REPORTS(cudaStreamBeginCapture(objects.second, cudaStreamCaptureModeRelaxed));
  REPORTS(cudaStreamEndCapture(objects.second, &graph));
  REPORTS(cudaEventCreate(&event));
  REPORTS(cudaEventRecord(objects.event, stream));
  REPORTS(cudaEventQuery(objects.event));
  REPORTS(cudaEventQuery(objects.later));
  REPORTS(cudaEventSynchronize(objects.event));
  REPORTS(cudaEventElapsedTime(&milliseconds, objects.event, objects.later));
  REPORTS(cudaEventQuery(objects.unused));
  REPORTS(cudaIpcGetEventHandle(&handle, objects.event));
}

void Kernels(const Objects& objects) {
  const auto* const kernel = reinterpret_cast<const void*>(Nothing);
  int value = 0;
  size_t bytes = 0, offset = 0;
  const char* name = nullptr;
  void* address = nullptr;
  cudaFuncAttributes attributes;
  cudaFunction_t function = nullptr;
  cudaKernel_t handle = nullptr;
  Objects::Launch launch;
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  WORKS(cudaFuncGetName(&name, kernel));
  WORKS(cudaGetKernel(&handle, kernel));
  REPORTS(cudaFuncGetAttributes(&attributes, kernel));
  REPORTS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
  REPORTS(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferNone));
  REPORTS(cudaFuncGetParamInfo(kernel, 0, &offset, &bytes));
  REPORTS(cudaGetFuncBySymbol(&function, kernel));
  REPORTS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, kernel, 32, 0));
  REPORTS(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 1, 32));
  REPORTS(cudaLaunchKernel(kernel, dim3(1), dim3(1), launch.arguments, 0, objects.stream));
  REPORTS(cudaLaunchKernel(kernel, dim3(0), dim3(1), launch.arguments, 0, objects.stream));
  REPORTS(cudaLaunchCooperativeKernel(kernel, dim3(1), dim3(1), launch.arguments, 0, nullptr));
  REPORTS(cudaLaunchKernelExC(&config, kernel, launch.arguments));
  REPORTS(cudaLibraryGetGlobal(&address, &bytes, objects.library, "counter"));
  Nothing<<<1, 1>>>(nullptr);
  REPORTS(cudaGetLastError());
}

void Graphs(const Objects& objects) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphNodeType type;
  size_t count = 0;
  const cudaMemsetParams set = {objects.device, 0, 0, 4, 4, 1};
  cudaHostNodeParams function = {HostFunction, nullptr};
  Objects::Launch launch;
  WORKS(cudaGraphCreate(&graph, 0));
  WORKS(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  WORKS(cudaGraphAddHostNode(&node, graph, nullptr, 0, &function));
  WORKS(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, objects.graph));
  WORKS(cudaGraphGetNodes(objects.graph, nullptr, &count));
  WORKS(cudaGraphGetRootNodes(objects.graph, nullptr, &count));
  WORKS(cudaGraphNodeGetType(objects.empty, &type));
  WORKS(cudaGraphClone(&graph, objects.graph));
  WORKS(cudaUserObjectRetain(objects.object, 1));
  WORKS(cudaUserObjectRelease(objects.object, 1));
  REPORTS(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  REPORTS(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, objects.device, host, 16,
                                   cudaMemcpyHostToDevice));
  REPORTS(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &launch.parameters));
  REPORTS(cudaGraphInstantiate(&exec, objects.graph, 0));
  REPORTS(cudaGraphInstantiateWithFlags(&exec, objects.graph, 0));
  REPORTS(cudaGraphUpload(objects.exec, objects.stream));
  REPORTS(cudaGraphLaunch(objects.exec, objects.stream));
}

// Functions freeing objects report it too.
void Ends(const Objects& objects) {
  WORKS(cudaMemPoolDestroy(objects.pool));
  REPORTS(cudaEventDestroy(objects.unused));
  REPORTS(cudaStreamDestroy(objects.third));
  REPORTS(cudaFreeMipmappedArray(objects.mipmap));
  REPORTS(cudaFreeArray(objects.array));
  REPORTS(cudaFreeHost(objects.pinned));
  REPORTS(cudaFree(objects.managed));
  REPORTS(cudaFree(objects.other));
}

}  // namespace

int main() {
  const Objects objects;
  Fault<<<1, 1>>>(reinterpret_cast<int*>(uintptr_t{16}));
  REPORTS(cudaDeviceSynchronize());
  REPORTS(cudaPeekAtLastError());
  REPORTS(cudaGetLastError());
  WORKS(cudaGetLastError());
  for (void (*const test)(const Objects&) :
       {Device, Memory, CopiesAndSets, Textures, StreamsAndEvents, Kernels, Graphs, Ends})
    test(objects);
  REPORTS(cudaDeviceSynchronize());
  WORKS(cudaDeviceReset());
  std::printf("after_fault: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
