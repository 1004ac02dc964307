// Contexts: none, unknown flags and limits, destroyed ones, and those of other threads.
#include <thread>

#include "group.h"

void NoContext() {
  int number = 0;
  unsigned flags = 0;
  unsigned long long id = 0;
  std::size_t bytes = 0;
  std::size_t total = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUdeviceptr memory = 0;
  CUmodule module = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUarray array = nullptr;
  CUlinkState linker = nullptr;
  CUipcMemHandle handle{};
  CUDA_ARRAY_DESCRIPTOR shape{16, 16, CU_AD_FORMAT_FLOAT, 1};
  char host[16] = {};
  void* pinned = nullptr;
  Start();
  BAD(cuCtxGetCurrent(&context));
  BAD(cuCtxPopCurrent(&context));
  BAD(cuCtxGetDevice(&device));
  BAD(cuCtxGetFlags(&flags));
  BAD(cuCtxSetFlags(0));
  BAD(cuCtxGetId(nullptr, &id));
  BAD(cuCtxGetApiVersion(nullptr, &flags));
  BAD(cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
  BAD(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
  BAD(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
  BAD(cuCtxGetStreamPriorityRange(&number, &number));
  BAD(cuCtxResetPersistingL2Cache());
  BAD(cuCtxSynchronize());
  BAD(cuMemGetInfo(&bytes, &total));
  BAD(cuMemAlloc(&memory, 16));
  BAD(cuMemAllocPitch(&memory, &bytes, 16, 16, 4));
  BAD(cuMemFree(4096));
  BAD(cuMemAllocHost(&pinned, 16));
  BAD(cuMemHostAlloc(&pinned, 16, 0));
  BAD(cuMemFreeHost(host));
  BAD(cuMemHostRegister(host, sizeof host, 0));
  BAD(cuMemHostUnregister(host));
  BAD(cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_GLOBAL));
  BAD(cuMemAllocAsync(&memory, 16, nullptr));
  BAD(cuMemcpyHtoD(4096, host, sizeof host));
  BAD(cuMemcpyDtoH(host, 4096, sizeof host));
  BAD(cuMemcpyDtoD(4096, 8192, 16));
  BAD(cuMemsetD8(4096, 0, 16));
  BAD(cuMemGetAddressRange(&memory, &bytes, 4096));
  BAD(cuArrayCreate(&array, &shape));
  BAD(cuModuleLoadData(&module, kPtx));
  BAD(cuLinkCreate(0, nullptr, nullptr, &linker));
  BAD(cuStreamCreate(&stream, 0));
  BAD(cuStreamSynchronize(nullptr));
  BAD(cuStreamQuery(nullptr));
  BAD(cuStreamGetFlags(nullptr, &flags));
  BAD(cuEventCreate(&event, 0));
  BAD(cuLaunchHostFunc(nullptr, nullptr, nullptr));
  BAD(cuIpcGetMemHandle(&handle, 4096));
  BAD(cuProfilerStart());
  BAD(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096));
}

void Contexts() {
  unsigned flags = 0;
  unsigned long long id = 0;
  std::size_t bytes = 0;
  CUcontext context = nullptr;
  CUexecAffinityParam affinity{};
  CUctxCreateParams parameters{};
  Start();
  BAD(cuCtxCreate(nullptr, nullptr, 0, 0));
  BAD(cuCtxCreate(&context, nullptr, 0x1000, 0));
  BAD(cuCtxCreate(&context, nullptr, 3, 0));
  BAD(cuCtxCreate(&context, nullptr, 0xFFFFFFFF, 0));
  BAD(cuCtxCreate(&context, nullptr, 0, -1));
  BAD(cuCtxCreate(&context, nullptr, 0, 1000));
  parameters.execAffinityParams = &affinity;
  parameters.numExecAffinityParams = -1;
  BAD(cuCtxCreate(&context, &parameters, 0, 0));
  BAD(cuCtxDestroy(nullptr));
  BAD(cuCtxPushCurrent(nullptr));
  BAD(cuCtxPopCurrent(nullptr));
  DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  BAD(cuCtxPushCurrent(nullptr));
  BAD(cuCtxGetCurrent(nullptr));
  BAD(cuCtxGetDevice(nullptr));
  BAD(cuCtxGetId(context, nullptr));
  BAD(cuCtxGetId(nullptr, &id));
  BAD(cuCtxGetApiVersion(context, nullptr));
  BAD(cuCtxGetApiVersion(nullptr, &flags));
  BAD(cuCtxGetFlags(nullptr));
  BAD(cuCtxSetFlags(0x1000));
  BAD(cuCtxSetFlags(3));
  BAD(cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE));
  BAD(cuCtxGetLimit(&bytes, Rubbish<CUlimit>(-1)));
  BAD(cuCtxGetLimit(&bytes, Rubbish<CUlimit>(99)));
  BAD(cuCtxSetLimit(Rubbish<CUlimit>(-1), 16));
  BAD(cuCtxSetLimit(Rubbish<CUlimit>(99), 16));
  BAD(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1000));
  BAD(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 1000));
  BAD(cuCtxGetCacheConfig(nullptr));
  BAD(cuCtxSetCacheConfig(Rubbish<CUfunc_cache>(99)));
  BAD(cuCtxSetCacheConfig(Rubbish<CUfunc_cache>(-1)));
  BAD(cuCtxGetSharedMemConfig(nullptr));
  BAD(cuCtxSetSharedMemConfig(Rubbish<CUsharedconfig>(99)));
  BAD(cuCtxGetStreamPriorityRange(nullptr, nullptr));
}

void DestroyedContext() {
  unsigned flags = 0;
  unsigned long long id = 0;
  CUcontext current = nullptr;
  CUdevice device = 0;
  CUdeviceptr memory = 0;
  const CUcontext destroyed = StartContext();
  DRIVER(cuCtxDestroy(destroyed));
  BAD(cuCtxGetCurrent(&current));
  BAD(cuMemAlloc(&memory, 16));
  BAD(cuCtxSynchronize());
  FATAL(cuCtxDestroy(destroyed));
  BAD(cuCtxSetCurrent(destroyed));
  BAD(cuCtxPushCurrent(destroyed));
  BAD(cuCtxGetId(destroyed, &id));
  BAD(cuCtxGetApiVersion(destroyed, &flags));
  // Destroyed by another thread, still current here.
  CUcontext shared = nullptr;
  DRIVER(cuCtxCreate(&shared, nullptr, 0, 0));
  std::thread([&] { DRIVER(cuCtxDestroy(shared)); }).join();
  BAD(cuCtxGetCurrent(&current));
  BAD(cuMemAlloc(&memory, 16));
  BAD(cuMemFree(4096));
  BAD(cuCtxSynchronize());
  BAD(cuCtxGetFlags(&flags));
  BAD(cuCtxGetDevice(&device));
  BAD(cuStreamSynchronize(nullptr));
  BAD(cuCtxDestroy(shared));
  BAD(cuCtxPopCurrent(&current));
  BAD(cuCtxPopCurrent(&current));
  DRIVER(cuCtxCreate(&current, nullptr, 0, 0));
  FATAL(cuCtxEnablePeerAccess(destroyed, 0));
  FATAL(cuMemcpyPeer(4096, destroyed, 8192, destroyed, 16));
}

void OtherContext() {
  const CUcontext first = StartContext();
  const Code code = LoadCode();
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUevent timed = nullptr;
  CUdeviceptr memory = 0;
  CUdeviceptr global = 0;
  std::size_t bytes = 0;
  int number = 0;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuEventCreate(&event, 0));
  DRIVER(cuEventRecord(event, nullptr));
  DRIVER(cuEventSynchronize(event));
  DRIVER(cuMemAlloc(&memory, 4096));
  CUcontext second = nullptr;
  DRIVER(cuCtxCreate(&second, nullptr, 0, 0));
  DRIVER(cuEventCreate(&timed, 0));
  DRIVER(cuEventRecord(timed, nullptr));
  DRIVER(cuEventSynchronize(timed));
  unsigned count = 0;
  unsigned factor = 1;
  void* arguments[] = {&memory, &count, &factor};
  float milliseconds = 0;
  BAD(cuLaunchKernel(code.kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  BAD(cuLaunchKernel(code.kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  BAD(cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, code.kernel));
  BAD(cuModuleGetGlobal(&global, &bytes, code.module, "counter"));
  BAD(cuEventRecord(event, nullptr));
  BAD(cuEventRecord(timed, stream));
  BAD(cuEventElapsedTime(&milliseconds, event, timed));
  BAD(cuEventQuery(event));
  BAD(cuStreamWaitEvent(nullptr, event, 0));
  BAD(cuStreamSynchronize(stream));
  BAD(cuStreamQuery(stream));
  BAD(cuMemsetD8Async(memory, 0, 16, stream));
  BAD(cuMemsetD8(memory, 0, 16));
  BAD(cuMemFree(memory));
  // Destroyed by this thread, below the current one.
  BAD(cuCtxDestroy(first));
  CUcontext current = nullptr;
  BAD(cuCtxPopCurrent(&current));
  BAD(cuMemAlloc(&memory, 16));
}

void OtherThread() {
  const CUcontext context = StartContext();
  const Code code = LoadCode();
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 4096));
  CUstream stream = nullptr;
  CUevent event = nullptr;
  DRIVER(cuStreamCreate(&stream, 0));
  DRIVER(cuEventCreate(&event, 0));
  std::thread([&] {
    char host[16] = {};
    unsigned count = 0;
    unsigned factor = 1;
    void* arguments[] = {&memory, &count, &factor};
    CUdevice device = 0;
    CUfunction kernel = nullptr;
    CUcontext current = nullptr;
    BAD(cuCtxGetDevice(&device));
    BAD(cuMemcpyDtoH(host, memory, sizeof host));
    BAD(cuMemcpyHtoD(memory, host, sizeof host));
    BAD(cuMemsetD8(memory, 0, 16));
    BAD(cuMemFree(memory));
    BAD(cuModuleGetFunction(&kernel, code.module, "kernel"));
    BAD(cuLaunchKernel(code.kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    BAD(cuLaunchKernel(code.kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    BAD(cuEventRecord(event, stream));
    BAD(cuStreamSynchronize(stream));
    BAD(cuEventQuery(event));
    BAD(cuCtxPopCurrent(&current));
  }).join();
  // Current here, destroyed by another thread.
  std::thread([&] { BAD(cuCtxDestroy(context)); }).join();
  BAD(cuMemAlloc(&memory, 16));
}

void Peers() {
  const CUcontext context = StartContext();
  int number = 0;
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, 4096));
  BAD(cuDeviceCanAccessPeer(nullptr, 0, 0));
  BAD(cuDeviceCanAccessPeer(&number, 0, 0));
  BAD(cuDeviceCanAccessPeer(&number, 0, 1000));
  BAD(cuDeviceCanAccessPeer(&number, 1000, 0));
  BAD(cuDeviceCanAccessPeer(&number, -1, 0));
  BAD(cuDeviceGetP2PAttribute(nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
  BAD(cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
  BAD(cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1000));
  BAD(cuDeviceGetP2PAttribute(&number, Rubbish<CUdevice_P2PAttribute>(99), 0, 1000));
  BAD(cuCtxEnablePeerAccess(nullptr, 0));
  BAD(cuCtxEnablePeerAccess(context, 0));
  BAD(cuCtxEnablePeerAccess(context, 1));
  BAD(cuCtxDisablePeerAccess(nullptr));
  BAD(cuCtxDisablePeerAccess(context));
  BAD(cuMemcpyPeer(memory, nullptr, memory, context, 16));
  BAD(cuMemcpyPeer(memory, context, memory, nullptr, 16));
  BAD(cuMemcpyPeer(0, context, memory, context, 16));
  BAD(cuMemcpyPeer(memory, context, 0, context, 16));
  BAD(cuMemcpyPeer(memory, context, memory, context, 0));
  BAD(cuMemcpyPeerAsync(memory, context, 0, context, 16, nullptr));
}
