// After a kernel's fault: calls reporting it, independent of their subject, and calls still
// working. Each result was measured on an H200 with runtime 13.0 and driver 580. A reset ends the
// fault.
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

#define EXPECT_FAULT(call) EXPECT_CUDA_ERROR(call, cudaErrorIllegalAddress)

class FaultsTest : public LoopbackTest {
 protected:
  FaultsTest() {
    const cudaChannelFormatDesc desc =
        cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    EXPECT_CUDA(cudaMalloc(&device_, 4096));
    EXPECT_CUDA(cudaMallocHost(&pinned_, 4096));
    EXPECT_CUDA(cudaMallocArray(&array_, &desc, 16, 16));
    EXPECT_CUDA(cudaEventCreate(&event_));
    EXPECT_CUDA(cudaGraphCreate(&graph_, 0));
    cudaGraphNode_t node = nullptr;
    EXPECT_CUDA(cudaGraphAddEmptyNode(&node, graph_, nullptr, 0));
    EXPECT_CUDA(cudaHostRegister(own_.data(), 4096, 0));
    kernel_ = Kernel("nothing");
    static_cast<void>(Launch("faults", nullptr));
    EXPECT_FAULT(cudaDeviceSynchronize());
    static_cast<void>(cudaGetLastError());
  }
  ~FaultsTest() override {
    EXPECT_CUDA(cudaDeviceReset());
    static_cast<void>(cudaGetLastError());
    EXPECT_CUDA(cudaFreeHost(pinned_));
    EXPECT_CUDA(cudaHostUnregister(own_.data()));
    EXPECT_CUDA(cudaMalloc(&device_, 16));
    EXPECT_CUDA(cudaFree(device_));
    EXPECT_CUDA(cudaGraphDestroy(graph_));
  }

  std::vector<std::byte> own_ = std::vector<std::byte>(4096);
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  cudaArray_t array_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  const void* kernel_ = nullptr;
};

TEST_F(FaultsTest, MemoryReportsThem) {
  void* memory = nullptr;
  std::size_t bytes = 0;
  unsigned flags = 0;
  EXPECT_FAULT(cudaMalloc(&memory, 16));
  EXPECT_FAULT(cudaMallocHost(&memory, 16));
  EXPECT_FAULT(cudaMemGetInfo(&bytes, &bytes));
  EXPECT_FAULT(cudaMemcpy(device_, own_.data(), 16, cudaMemcpyHostToDevice));
  EXPECT_FAULT(cudaMemcpyAsync(device_, own_.data(), 16, cudaMemcpyHostToDevice, nullptr));
  EXPECT_FAULT(cudaMemset(device_, 0, 16));
  EXPECT_FAULT(cudaHostGetFlags(&flags, pinned_));
  EXPECT_FAULT(cudaHostUnregister(own_.data()));
  EXPECT_FAULT(cudaIpcCloseMemHandle(device_));
  EXPECT_FAULT(cudaFree(reinterpret_cast<void*>(0x1234)));
  EXPECT_FAULT(cudaFree(device_));
  EXPECT_FAULT(cudaFreeHost(nullptr));
  // The memory is freed nevertheless.
  EXPECT_FAULT(cudaFreeHost(pinned_));
  pinned_ = nullptr;
}

TEST_F(FaultsTest, StreamsEventsAndKernelsReportThem) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaIpcEventHandle_t handle;
  cudaFunction_t function = nullptr;
  cudaFuncAttributes attributes;
  EXPECT_FAULT(cudaStreamCreate(&stream));
  EXPECT_FAULT(cudaStreamQuery(nullptr));
  EXPECT_FAULT(cudaStreamSynchronize(nullptr));
  EXPECT_FAULT(cudaEventCreate(&event));
  EXPECT_FAULT(cudaEventRecord(event_, nullptr));
  EXPECT_FAULT(cudaIpcGetEventHandle(&handle, event_));
  EXPECT_FAULT(cudaLaunchKernel(kernel_, 1, 1, nullptr, 0, nullptr));
  EXPECT_FAULT(cudaLaunchKernel(kernel_, 0, 1, nullptr, 0, nullptr));
  EXPECT_FAULT(cudaFuncGetAttributes(&attributes, kernel_));
  EXPECT_FAULT(cudaGetFuncBySymbol(&function, kernel_));
  EXPECT_FAULT(cudaDeviceSynchronize());
  EXPECT_FAULT(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_FAULT(cudaDeviceDisablePeerAccess(1));
  EXPECT_FAULT(cudaProfilerStart());
  EXPECT_FAULT(cudaProfilerStop());
}

TEST_F(FaultsTest, ArraysAndGraphsReportThem) {
  cudaChannelFormatDesc desc;
  cudaExtent extent;
  cudaResourceDesc resource;
  cudaTextureDesc sampling;
  unsigned flags = 0;
  cudaArray_t plane = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  const cudaMemsetParams set{device_, 0, 0, 4, 4, 1};
  EXPECT_FAULT(cudaArrayGetInfo(&desc, &extent, &flags, array_));
  EXPECT_FAULT(cudaGetChannelDesc(&desc, array_));
  EXPECT_FAULT(cudaArrayGetPlane(&plane, array_, 0));
  EXPECT_FAULT(cudaGetTextureObjectResourceDesc(&resource, 0));
  EXPECT_FAULT(cudaGetTextureObjectTextureDesc(&sampling, 0));
  EXPECT_FAULT(cudaDestroySurfaceObject(0));
  EXPECT_FAULT(cudaGraphAddMemsetNode(&node, graph_, nullptr, 0, &set));
  EXPECT_FAULT(cudaGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, device_, own_.data(), 16,
                                        cudaMemcpyHostToDevice));
  EXPECT_FAULT(cudaGraphInstantiate(&exec, graph_, 0));
  EXPECT_FAULT(cudaGraphInstantiateWithFlags(&exec, graph_, 0));
}

TEST_F(FaultsTest, QueriesThatNeedNoContextWork) {
  int value = 0;
  cudaDeviceProp properties;
  cudaPointerAttributes attributes;
  cudaMemPool_t pool = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  const char* name = nullptr;
  EXPECT_CUDA(cudaGetDevice(&value));
  EXPECT_CUDA(cudaGetDeviceCount(&value));
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  EXPECT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_CUDA(cudaDriverGetVersion(&value));
  EXPECT_CUDA(cudaRuntimeGetVersion(&value));
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, device_));
  EXPECT_CUDA(cudaFuncGetName(&name, kernel_));
  EXPECT_CUDA(cudaGraphCreate(&graph, 0));
  EXPECT_CUDA(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  // Invalid arguments take precedence in some calls.
  EXPECT_CUDA_ERROR(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaMalloc(static_cast<void**>(nullptr), 16), cudaErrorInvalidValue);
}

// A call not reporting the fault does not replace the last error either.
TEST_F(FaultsTest, TheLastErrorIsThatOfTheLastCallThatFailed) {
  int value = 0;
  EXPECT_FAULT(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaGetDevice(&value));
  EXPECT_FAULT(cudaPeekAtLastError());
  EXPECT_FAULT(cudaGetLastError());
  EXPECT_CUDA(cudaGetLastError());
  EXPECT_FAULT(cudaDeviceSynchronize());
  // A reset keeps the last error.
  EXPECT_CUDA(cudaDeviceReset());
  EXPECT_FAULT(cudaGetLastError());
  EXPECT_CUDA(cudaGetLastError());
}

// The other device's context has no fault.
TEST_F(FaultsTest, TheyAreTheContexts) {
  unsigned flags = 0;
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(cudaStreamCreate(&stream));
  EXPECT_CUDA(cudaHostGetFlags(&flags, pinned_));
  EXPECT_CUDA(cudaProfilerStart());
  EXPECT_CUDA(cudaStreamDestroy(stream));
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_FAULT(cudaHostGetFlags(&flags, pinned_));
}

}  // namespace
}  // namespace cuspan
