// The driver's functions beside the runtime's: contexts, and what both know of each other.
#include <cuda.h>

#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// The runtime has made no context current in the threads of these tests before they do.
class DriverTest : public LoopbackTest {
 protected:
  template <typename Use>
  static void InNewThread(Use&& use) {
    std::thread(use).join();
  }
  static CUcontext Primary(int device) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    return context;
  }
};

TEST_F(DriverTest, AThreadBeginsWithoutAContext) {
  InNewThread([] {
    CUcontext context = reinterpret_cast<CUcontext>(1);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CUDA(cudaFree(nullptr));
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_NE(context, nullptr) << "the runtime makes its context current";
    EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_SUCCESS);
    EXPECT_CUDA(cudaFree(reinterpret_cast<void*>(memory)));
  });
}

TEST_F(DriverTest, TheContextOnTopIsTheRuntimesDevice) {
  InNewThread([] {
    const CUcontext first = Primary(0);
    const CUcontext second = Primary(1);
    EXPECT_EQ(cuCtxPushCurrent(first), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(second), CUDA_SUCCESS);
    int device = -1;
    EXPECT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 1);
    CUcontext popped = nullptr;
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    EXPECT_EQ(popped, second);
    EXPECT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 0);
    EXPECT_CUDA(cudaSetDevice(1));
    CUcontext current = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, second);
    for (int device : {0, 1}) EXPECT_EQ(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
  });
}

TEST_F(DriverTest, AContextEndsWithItsLastUser) {
  InNewThread([] {
    const CUcontext context = Primary(1);
    EXPECT_EQ(Primary(1), context);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    unsigned flags = 0;
    int active = 1;
    EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST_F(DriverTest, TheRuntimeKeepsWhatItUses) {
  InNewThread([] {
    EXPECT_CUDA(cudaSetDevice(0));
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, 64));
    static_cast<void>(Primary(0));
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_CUDA(cudaMemset(memory, 1, 64));
    EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    EXPECT_CUDA_ERROR(cudaFree(memory), cudaErrorInvalidValue);
  });
}

TEST_F(DriverTest, HandlesThatAreNoneAreRefused) {
  int here = 0;
  const auto context = reinterpret_cast<CUcontext>(&here);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CUDA(cudaFree(nullptr));
  EXPECT_EQ(cuModuleUnload(reinterpret_cast<CUmodule>(&here)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(reinterpret_cast<CUstream>(&here)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(reinterpret_cast<CUevent>(&here)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(&here), 1, 1, 1, 1, 1, 1, 0, nullptr,
                           nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, kDevices),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, TheRuntimeFindsTheDriversFunctions) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &function, 12000,
                                               cudaEnableDefault, &status));
  ASSERT_EQ(status, cudaDriverEntryPointSuccess);
  int count = 0;
  EXPECT_EQ(reinterpret_cast<CUresult (*)(int*)>(function)(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, kDevices);
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuMulticastCreate", &function, 13000,
                                               cudaEnableDefault, &status));
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
  EXPECT_CUDA_ERROR(
      cudaGetDriverEntryPointByVersion(nullptr, &function, 13000, cudaEnableDefault, &status),
      cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan
