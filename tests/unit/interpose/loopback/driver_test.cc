// Driver functions together with runtime functions: contexts, and the state shared by both.
#include <cuda.h>

#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// At their start, the threads of these tests have no current context by the runtime.
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

// A created context's objects are its own, and end with it.
TEST_F(DriverTest, ACreatedContextHasALifeOfItsOwn) {
  InNewThread([] {
    const CUcontext primary = Primary(0);
    EXPECT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
    CUcontext created = nullptr;
    ASSERT_EQ(cuCtxCreate(&created, nullptr, CU_CTX_SCHED_SPIN, 0), CUDA_SUCCESS);
    EXPECT_NE(created, primary);
    CUcontext current = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, created);
    unsigned flags = 0;
    EXPECT_EQ(cuCtxGetFlags(&flags), CUDA_SUCCESS);
    EXPECT_EQ(flags, CU_CTX_SCHED_SPIN);
    int device = -1;
    EXPECT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 0);
    unsigned long long ids[2];
    EXPECT_EQ(cuCtxGetId(created, &ids[0]), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetId(primary, &ids[1]), CUDA_SUCCESS);
    EXPECT_NE(ids[0], ids[1]);

    // Memory of both contexts at the same time. Each is read and freed from any context.
    CUdeviceptr mine = 0;
    EXPECT_EQ(cuMemAlloc(&mine, 64), CUDA_SUCCESS);
    CUcontext owner = nullptr;
    EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, mine), CUDA_SUCCESS);
    EXPECT_EQ(owner, created);
    const char sent[] = "a context of its own";
    EXPECT_EQ(cuMemcpyHtoD(mine, sent, sizeof sent), CUDA_SUCCESS);
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, primary);
    CUdeviceptr theirs = 0;
    EXPECT_EQ(cuMemAlloc(&theirs, 64), CUDA_SUCCESS);
    EXPECT_NE(theirs, mine);
    EXPECT_EQ(cuMemcpy(theirs, mine, sizeof sent), CUDA_SUCCESS);
    char read[sizeof sent] = {};
    EXPECT_EQ(cuMemcpyDtoH(read, theirs, sizeof read), CUDA_SUCCESS);
    EXPECT_STREQ(read, sent);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE) << "another context";
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    CUcontext of_stream = nullptr;
    EXPECT_EQ(cuStreamGetCtx(stream, &of_stream), CUDA_SUCCESS);
    EXPECT_EQ(of_stream, created);

    // A reset of the device resets its primary context only.
    EXPECT_EQ(cuCtxSetCurrent(created), CUDA_SUCCESS);
    EXPECT_CUDA(cudaDeviceReset());
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(read, mine, sizeof read), CUDA_SUCCESS);

    EXPECT_EQ(cuCtxDestroy(created), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
    EXPECT_EQ(cuCtxDestroy(created), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(cuCtxSetCurrent(created), CUDA_SUCCESS) << "measured natively, driver 580";
    EXPECT_EQ(cuMemAlloc(&mine, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  });
}

// It stays in the stack below other contexts.
TEST_F(DriverTest, AContextIsDestroyedBelowAnother) {
  InNewThread([] {
    const CUcontext primary = Primary(1);
    CUcontext created = nullptr;
    ASSERT_EQ(cuCtxCreate(&created, nullptr, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(primary), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxDestroy(created), CUDA_SUCCESS);
    CUcontext current = nullptr;
    EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, primary);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, created);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  });
}

TEST_F(DriverTest, ContextsThatCannotBeCreatedOrDestroyed) {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxCreate(nullptr, nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, kDevices), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuCtxCreate(&context, nullptr, 3, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDestroy(reinterpret_cast<CUcontext>(&context)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy(Primary(0)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

TEST_F(DriverTest, FreedHandlesAreRefused) {
  EXPECT_CUDA(cudaFree(nullptr));
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

// Called by index in undocumented tables, as cuBLAS does.
TEST_F(DriverTest, PrivateTablesTellOfContextsAndStreams) {
  constexpr CUuuid kThread{{0x42, '\xd8', 0x5a, '\x81', 0x23, '\xf6', '\xcb', 0x47, '\x82', '\x98',
                            '\xf6', '\xe7', '\x8a', 0x3a, '\xec', '\xdc'}};
  constexpr CUuuid kContexts{{0x21, 0x31, '\x8c', 0x60, '\x97', 0x14, 0x32, 0x48, '\x8c', '\xa6',
                              0x41, '\xff', 0x73, 0x24, '\xc8', '\xf2'}};
  const void* found = nullptr;
  ASSERT_EQ(cuGetExportTable(&found, &kThread), CUDA_SUCCESS);
  const auto* const thread = static_cast<const void* const*>(found);
  EXPECT_GT(reinterpret_cast<std::uintptr_t>(thread[0]), 2 * sizeof(void*));
  const auto current = reinterpret_cast<CUresult (*)(CUcontext*)>(thread[2]);
  CUcontext context = nullptr;
  InNewThread([&] {
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    EXPECT_CUDA(cudaSetDevice(1));
    EXPECT_CUDA(cudaFree(nullptr));
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, Primary(1));
    EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    EXPECT_CUDA(cudaGetExportTable(&found, &kContexts));
    const auto* const contexts = static_cast<const void* const*>(found);
    EXPECT_GT(reinterpret_cast<std::uintptr_t>(contexts[0]), 51 * sizeof(void*));
    const auto number = reinterpret_cast<CUresult (*)(CUcontext, std::uint64_t*)>(contexts[4]);
    unsigned long long id = 0;
    EXPECT_EQ(cuCtxGetId(context, &id), CUDA_SUCCESS);
    std::uint64_t out = 0;
    EXPECT_EQ(number(context, &out), CUDA_SUCCESS);
    EXPECT_EQ(out, id);
    EXPECT_EQ(number(context, nullptr), CUDA_ERROR_INVALID_VALUE);
    int here = 0;
    EXPECT_EQ(number(reinterpret_cast<CUcontext>(&here), &out), CUDA_ERROR_INVALID_CONTEXT);
    CUstream stream = nullptr;
    EXPECT_EQ(reinterpret_cast<CUresult (*)(CUcontext, CUstream, CUstream*)>(contexts[51])(
                  context, nullptr, &stream),
              CUDA_SUCCESS);
    EXPECT_NE(stream, nullptr);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    EXPECT_EQ(reinterpret_cast<CUresult (*)(CUcontext, CUstream, std::uint64_t*)>(contexts[39])(
                  context, stream, &out),
              CUDA_SUCCESS);
    EXPECT_EQ(reinterpret_cast<CUresult (*)()>(const_cast<void*>(contexts[1]))(),
              CUDA_ERROR_NOT_SUPPORTED);
  });
  constexpr CUuuid kOther{{1, 2, 3}};
  EXPECT_EQ(cuGetExportTable(&found, &kOther), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(cuGetExportTable(nullptr, &kOther), CUDA_ERROR_INVALID_VALUE);
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
