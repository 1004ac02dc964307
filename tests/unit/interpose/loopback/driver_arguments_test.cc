// The driver's results for invalid arguments, if CUDA's documentation leaves them open or differs.
// Measured natively, driver 580.
#include <cuda.h>

#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

constexpr std::size_t kHuge = std::size_t{1} << 46;

class DriverArgumentsTest : public LoopbackTest {
 protected:
  DriverArgumentsTest() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"),
              CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel, module, "add"), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  }
  ~DriverArgumentsTest() override {
    EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
    CUcontext left = nullptr;
    while (cuCtxPopCurrent(&left) == CUDA_SUCCESS) {
    }
  }
  template <typename Use>
  static void InNewThread(Use&& use) {
    std::thread(use).join();
  }
  // Launches the kernel on no words.
  CUresult Launch(CUstream where, void** extra = nullptr, bool with_arguments = true) {
    unsigned count = 0;
    unsigned value = 1;
    void* arguments[] = {&memory, &count, &value};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, where, with_arguments ? arguments : nullptr,
                          extra);
  }
  CUresult LaunchBuffer(std::size_t bytes) {
    CUdeviceptr buffer[8] = {memory};
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    return Launch(nullptr, extra, false);
  }

  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
};

// A handle implies its context, independent of the thread's current one.
TEST_F(DriverArgumentsTest, AThreadWithoutAContextUsesThatOfWhatItNames) {
  InNewThread([&] {
    CUfunction found = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&found, module, "add"), CUDA_SUCCESS);
    EXPECT_EQ(found, kernel);
    EXPECT_EQ(Launch(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(Launch(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    int here = 0;
    EXPECT_EQ(cuMemFreeHost(&here), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemHostUnregister(&here), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CUcontext current = context;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr) << "none of this made one current";
  });
}

TEST_F(DriverArgumentsTest, AModulesKernelRunsInItsContextAlone) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(Launch(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Launch(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
}

TEST_F(DriverArgumentsTest, ADestroyedContextIsKnownAsOne) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate(&other, nullptr, CU_CTX_SCHED_YIELD, 0), CUDA_SUCCESS);
  InNewThread([&] { EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS); });
  unsigned flags = 0;
  EXPECT_EQ(cuCtxGetFlags(&flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_CTX_SCHED_YIELD);
  unsigned long long id = 0;
  EXPECT_EQ(cuCtxGetId(other, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxGetApiVersion(other, &flags), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(DriverArgumentsTest, Contexts) {
  EXPECT_EQ(cuCtxPushCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxEnablePeerAccess(context, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(cuMemcpyPeer(memory, nullptr, memory + 64, context, 16), CUDA_SUCCESS);
  int number = 0;
  EXPECT_EQ(cuDeviceGetP2PAttribute(&number, static_cast<CUdevice_P2PAttribute>(99), 0, kDevices),
            CUDA_ERROR_INVALID_DEVICE);
  InNewThread(
      [] { EXPECT_EQ(cuLaunchHostFunc(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE); });
}

TEST_F(DriverArgumentsTest, Devices) {
  char name[64] = {};
  EXPECT_EQ(cuDeviceGetName(name, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetName(name, -1, 0), CUDA_SUCCESS);
  int supported = 1;
  EXPECT_EQ(cuDeviceGetExecAffinitySupport(&supported, static_cast<CUexecAffinityType>(99), 0),
            CUDA_SUCCESS);
  EXPECT_EQ(supported, 0);
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool, kDevices), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetMemPool(&pool, kDevices), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetMemPool(&pool, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceSetMemPool(kDevices, pool), CUDA_ERROR_INVALID_VALUE);
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, 12000, 3, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, 12000, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverArgumentsTest, Code) {
  CUmodule none = nullptr;
  EXPECT_EQ(cuModuleLoad(&none, ""), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetFunction(&kernel, module, ""), CUDA_ERROR_INVALID_VALUE);
  std::size_t bytes = 0;
  EXPECT_EQ(cuModuleGetGlobal(nullptr, &bytes, module, ""), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetGlobal(nullptr, nullptr, module, "value"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetModule(&none, nullptr), CUDA_ERROR_INVALID_VALUE);
  for (const int config : {-1, 4, 99}) {
    EXPECT_EQ(cuFuncSetCacheConfig(kernel, static_cast<CUfunc_cache>(config)),
              CUDA_ERROR_INVALID_VALUE);
  }
  for (const int attribute : {-1, static_cast<int>(CU_FUNC_ATTRIBUTE_MAX), 99}) {
    EXPECT_EQ(cuFuncSetAttribute(kernel, static_cast<CUfunction_attribute>(attribute), 0),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuLinkComplete(nullptr, nullptr, &bytes), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverArgumentsTest, Launches) {
  void* nothing[] = {CU_LAUNCH_PARAM_END};
  EXPECT_EQ(Launch(nullptr, nothing), CUDA_SUCCESS);
  EXPECT_EQ(Launch(nullptr, nothing, false), CUDA_ERROR_INVALID_VALUE);
  // The kernel has 16 bytes of parameters.
  EXPECT_EQ(LaunchBuffer(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(LaunchBuffer(12), CUDA_SUCCESS);
  EXPECT_EQ(LaunchBuffer(16), CUDA_SUCCESS);
  EXPECT_EQ(LaunchBuffer(17), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CUlaunchAttribute attribute{};
  attribute.id = static_cast<CUlaunchAttributeID>(99);
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, nullptr, &attribute, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, kernel, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
}

TEST_F(DriverArgumentsTest, Memory) {
  CUdeviceptr made = 0;
  std::size_t pitch = 0;
  EXPECT_EQ(cuMemAllocPitch(&made, &pitch, kHuge, 16, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocPitch(&made, &pitch, 16, kHuge, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(0, nullptr), CUDA_SUCCESS);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE) << "nowhere";
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, kDevices};
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE) << "no device";
  properties.location.id = 0;
  properties.handleTypes = static_cast<CUmemAllocationHandleType>(0x4000);
  EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE) << "no handle";
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolSetAccess(pool, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, kDevices},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, static_cast<CUmemAccess_flags>(99)};
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

TEST_F(DriverArgumentsTest, AllocationsOfAnyKind) {
  std::size_t granularity = 0;
  CUmemAllocationProp properties{};
  EXPECT_EQ(
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS);
  EXPECT_EQ(granularity, std::size_t{2} << 20);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(0x4000);
  gpu().HaveFree(std::uint64_t{1} << 30);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, granularity, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(100'000),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_UNKNOWN);
}

TEST_F(DriverArgumentsTest, Events) {
  EXPECT_EQ(cuEventElapsedTime(nullptr, event, event), CUDA_ERROR_INVALID_HANDLE);
  CUipcEventHandle handle{};
  EXPECT_EQ(cuIpcGetEventHandle(&handle, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcOpenEventHandle(&event, handle), CUDA_ERROR_MAP_FAILED);
  float milliseconds = 0;
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, event, event), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(cuStreamEndCapture(stream, nullptr), CUDA_SUCCESS);
}

TEST_F(DriverArgumentsTest, Graphs) {
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&first, graph, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&second, graph, nullptr, 0), CUDA_SUCCESS);
  CUgraphEdgeData edge{};
  edge.type = 99;
  EXPECT_EQ(cuGraphAddDependencies(graph, &first, &second, &edge, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams any{};
  any.type = static_cast<CUgraphNodeType>(99);
  EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &any), CUDA_ERROR_INVALID_VALUE);
  any.type = CU_GRAPH_NODE_TYPE_EMPTY;
  any.reserved0[0] = 1;
  EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &any), CUDA_ERROR_INVALID_VALUE);
  any.reserved0[0] = 0;
  EXPECT_EQ(cuGraphAddNode(&node, graph, &first, &edge, 1, &any), CUDA_ERROR_INVALID_VALUE);
  CUDA_KERNEL_NODE_PARAMS launch{};
  EXPECT_EQ(cuGraphKernelNodeSetParams(first, &launch), CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = memory + 2;
  set.elementSize = 4;
  set.width = 4;
  set.height = 1;
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context),
            CUDA_ERROR_INVALID_VALUE);
  set.dst = memory;
  set.width = 0;
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D copy{};
  EXPECT_EQ(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_MEM_ALLOC_NODE_PARAMS allocate{};
  allocate.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocate.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, kDevices};
  allocate.bytesize = 64;
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocate), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  unsigned enabled = 0;
  EXPECT_EQ(cuGraphNodeGetEnabled(exec, first, &enabled), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroyNode(second), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate(exec, graph, nullptr), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace cuspan
