// Query functions of both faces, also with empty results: pools by location, connections, arrays,
// textures, the log. Also use counts of contexts, and launches in the form before CUDA 4. If CUDA's
// documentation leaves a result open, it was measured on an H100, driver 580.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

// Declared in CUDA 13 releases after this header.
extern "C" cudaError_t cudaFuncGetParamCount(const void* function, std::size_t* count);

namespace cuspan {
namespace {

class DriverQueriesTest : public LoopbackTest {
 protected:
  DriverQueriesTest() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_CUDA(cudaFree(nullptr));
  }
};

TEST_F(DriverQueriesTest, PlacesHavePools) {
  CUmemLocation place{};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = 1;
  CUmemoryPool of_place = nullptr;
  CUmemoryPool of_device = nullptr;
  EXPECT_EQ(cuMemGetDefaultMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&of_device, 1), CUDA_SUCCESS);
  EXPECT_EQ(of_place, of_device);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = place;
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  EXPECT_EQ(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, pool), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
  EXPECT_EQ(of_place, pool);
  EXPECT_EQ(cuDeviceGetMemPool(&of_device, 1), CUDA_SUCCESS);
  EXPECT_EQ(of_device, pool);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);

  EXPECT_EQ(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetMemPool(nullptr, &place, CU_MEM_ALLOCATION_TYPE_PINNED),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetDefaultMemPool(&of_place, nullptr, CU_MEM_ALLOCATION_TYPE_PINNED),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetDefaultMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_INVALID),
            CUDA_ERROR_INVALID_VALUE);
  place.id = 9;
  EXPECT_EQ(cuMemGetMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED),
            CUDA_ERROR_INVALID_VALUE);
}

// A name is padded with zeros up to byte 64 or the end of the buffer. A bus id has no padding. If
// it is too long, it is truncated.
TEST_F(DriverQueriesTest, TextsFillTheirBuffersAsTheDriversDo) {
  std::array<char, 100> text{};
  for (const int length : {1, 4, 20, 64, 100}) {
    text.fill('x');
    EXPECT_EQ(cuDeviceGetName(text.data(), length, 0), CUDA_SUCCESS);
    const std::size_t room = std::min(length, 64);
    const std::string name = std::string("a fake GPU").substr(0, room - 1);
    EXPECT_EQ(std::string(text.data(), room), name + std::string(room - name.size(), '\0'));
    EXPECT_EQ(text[room], 'x') << length;
  }
  text.fill('x');
  EXPECT_EQ(cuDeviceGetPCIBusId(text.data(), 12, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_STREQ(text.data(), "0000:01:00.");
  text.fill('x');
  EXPECT_EQ(cuDeviceGetPCIBusId(text.data(), 20, 0), CUDA_SUCCESS);
  EXPECT_STREQ(text.data(), "0000:01:00.0");
  EXPECT_EQ(text[13], 'x');
}

// Each attribute is written with the size used by the driver: booleans have the size of an int.
TEST_F(DriverQueriesTest, PointerAttributesHaveTheirSizes) {
  CUdeviceptr device = 0;
  CUdeviceptr pooled = 0;
  void* pinned = nullptr;
  std::vector<std::byte> own(4096);
  ASSERT_EQ(cuMemAlloc(&device, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, 1000, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocHost(&pinned, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostRegister(own.data(), own.size(), 0), CUDA_SUCCESS);
  const auto registered = reinterpret_cast<CUdeviceptr>(own.data());
  std::array<unsigned char, 16> bytes{};
  const auto get = [&](CUpointer_attribute attribute, CUdeviceptr pointer) {
    bytes.fill(0xff);
    return cuPointerGetAttribute(bytes.data(), attribute, pointer);
  };
  const auto written = [&] {
    return std::find_if(bytes.rbegin(), bytes.rend(),
                        [](unsigned char byte) { return byte != 0xff; })
               .base() -
           bytes.begin();
  };
  const auto number = [&] {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };
  for (const CUdeviceptr pointer : {device, pooled, reinterpret_cast<CUdeviceptr>(pinned)}) {
    for (const CUpointer_attribute flag :
         {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_MANAGED,
          CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_MAPPED,
          CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
          CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE}) {
      EXPECT_EQ(get(flag, pointer), CUDA_SUCCESS) << flag;
      EXPECT_EQ(written(), 4) << flag;
      EXPECT_LE(number() & 0xffff'ffff, 1U) << flag;
      void* out = bytes.data();
      CUpointer_attribute one = flag;
      bytes.fill(0xff);
      EXPECT_EQ(cuPointerGetAttributes(1, &one, &out, pointer), CUDA_SUCCESS) << flag;
      EXPECT_EQ(written(), 4) << flag;
    }
  }
  // Device memory has no address for the host: this is an error.
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_HOST_POINTER, device), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(number(), 0U);
  // The mapping contains the block.
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, device + 999), CUDA_SUCCESS);
  EXPECT_LE(number(), device);
  const std::uint64_t base = number();
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, device + 999), CUDA_SUCCESS);
  EXPECT_GE(number(), device + 1000 - base);
  // A pool's memory belongs to no context and cannot be shared by cudaIpc….
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_CONTEXT, pooled), CUDA_SUCCESS);
  EXPECT_EQ(number(), 0U);
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pooled), CUDA_SUCCESS);
  EXPECT_EQ(number() & 0xffff'ffff, 0U);
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled), CUDA_SUCCESS);
  EXPECT_EQ(number(), reinterpret_cast<std::uintptr_t>(pool));
  // Registered memory has its range.
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, registered + 100), CUDA_SUCCESS);
  EXPECT_EQ(number(), registered);
  EXPECT_EQ(get(CU_POINTER_ATTRIBUTE_RANGE_SIZE, registered + 100), CUDA_SUCCESS);
  EXPECT_EQ(number(), own.size());
  EXPECT_EQ(cuMemHostUnregister(own.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(pooled, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

// A thread caches replies. Another thread may free the cached block.
TEST_F(DriverQueriesTest, PointersAreOfBlocksAsTheyAreNow) {
  const auto bytes_at = [](CUdeviceptr pointer) {
    std::size_t bytes = 0;
    const CUresult result = cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer);
    return result == CUDA_SUCCESS ? bytes : 0;
  };
  CUdeviceptr first = 0;
  ASSERT_EQ(cuMemAlloc(&first, 1000), CUDA_SUCCESS);
  CUdeviceptr second = 0;
  ASSERT_EQ(cuMemAlloc(&second, 5000), CUDA_SUCCESS);
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(bytes_at(first), 1000);
    EXPECT_EQ(bytes_at(first + 999), 1000);
    EXPECT_EQ(bytes_at(first + 1000), 0);
    EXPECT_EQ(bytes_at(second), 5000);
  }
  std::thread([&] {
    EXPECT_CUDA(cudaSetDevice(0));
    EXPECT_EQ(cuMemFree(first), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(bytes_at(first), 0);
  EXPECT_EQ(bytes_at(second), 5000);
  CUdeviceptr third = 0;
  ASSERT_EQ(cuMemAlloc(&third, 600), CUDA_SUCCESS);
  EXPECT_EQ(third, first);  // Best fit.
  EXPECT_EQ(bytes_at(third), 600);
  EXPECT_EQ(bytes_at(third + 700), 0);
  EXPECT_CUDA(cudaDeviceReset());
  EXPECT_EQ(bytes_at(second), 0);
}

TEST_F(DriverQueriesTest, LinksHaveNoAtomicOperations) {
  const CUatomicOperation add = CU_ATOMIC_OPERATION_INTEGER_ADD;
  const CUatomicOperation none = CU_ATOMIC_OPERATION_MAX;
  unsigned found = 7;
  EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(&found, &add, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(&found, &add, 0, 9), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(&found, &none, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(&found, nullptr, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(&found, &add, 1, 9), CUDA_ERROR_INVALID_DEVICE);
  found = 7;
  EXPECT_EQ(cuDeviceGetP2PAtomicCapabilities(&found, &add, 1, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(cuDeviceGetP2PAtomicCapabilities(&found, &add, 1, 1, 1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetP2PAtomicCapabilities(&found, &add, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  const cudaAtomicOperation cas = cudaAtomicOperationCAS;
  EXPECT_CUDA(cudaDeviceGetHostAtomicCapabilities(&found, &cas, 1, 1));
  EXPECT_CUDA(cudaDeviceGetP2PAtomicCapabilities(&found, &cas, 1, 1, 0));
  EXPECT_CUDA_ERROR(cudaDeviceGetP2PAtomicCapabilities(&found, &cas, 1, 0, 0),
                    cudaErrorInvalidDevice);
}

TEST_F(DriverQueriesTest, NoArrayHasPlanesOrIsSparse) {
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape{8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  ASSERT_EQ(cuArray3DCreate(&array, &shape), CUDA_SUCCESS);
  ASSERT_EQ(cuMipmappedArrayCreate(&mipmap, &shape, 2), CUDA_SUCCESS);
  CUarray plane = nullptr;
  EXPECT_EQ(cuArrayGetPlane(&plane, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuArrayGetPlane(nullptr, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuArrayGetPlane(&plane, nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CUDA_ERROR(cudaArrayGetPlane(reinterpret_cast<cudaArray_t*>(&plane),
                                      reinterpret_cast<cudaArray_t>(array), 1),
                    cudaErrorInvalidValue);
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
  CUDA_ARRAY_SPARSE_PROPERTIES sparse;
  EXPECT_EQ(cuArrayGetMemoryRequirements(&needs, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuArrayGetSparseProperties(&sparse, array), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMipmappedArrayGetSparseProperties(&sparse, mipmap), CUDA_ERROR_INVALID_VALUE);
  cudaArraySparseProperties properties;
  EXPECT_CUDA_ERROR(cudaArrayGetSparseProperties(&properties, reinterpret_cast<cudaArray_t>(array)),
                    cudaErrorInvalidValue);
  EXPECT_EQ(cuMipmappedArrayDestroy(mipmap), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
}

TEST_F(DriverQueriesTest, TexturesOfLinearMemoryHaveAWidth) {
  int least = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&least, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 0),
            CUDA_SUCCESS);
  const auto whole = static_cast<std::size_t>(least);
  const auto width = [](CUarray_format format, unsigned channels) {
    std::size_t elements = 77;
    EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&elements, format, channels, 0), CUDA_SUCCESS);
    return elements;
  };
  EXPECT_EQ(width(CU_AD_FORMAT_FLOAT, 4), whole);
  EXPECT_EQ(width(CU_AD_FORMAT_HALF, 4), 2 * whole);
  EXPECT_EQ(width(CU_AD_FORMAT_FLOAT, 1), 4 * whole);
  EXPECT_EQ(width(CU_AD_FORMAT_UNSIGNED_INT8, 1), 4 * whole);
  std::size_t elements = 0;
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&elements, CU_AD_FORMAT_FLOAT, 3, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&elements, static_cast<CUarray_format>(0x63), 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(nullptr, CU_AD_FORMAT_FLOAT, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&elements, CU_AD_FORMAT_FLOAT, 1, 9),
            CUDA_ERROR_INVALID_DEVICE);
  const cudaChannelFormatDesc pair =
      cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindFloat);
  EXPECT_CUDA(cudaDeviceGetTexture1DLinearMaxWidth(&elements, &pair, 0));
  EXPECT_EQ(elements, 2 * whole);
}

TEST_F(DriverQueriesTest, WhatOtherDevicesAndSystemsHaveIsNotThere) {
  char luid[8];
  unsigned nodes = 0;
  EXPECT_EQ(cuDeviceGetLuid(luid, &nodes, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuDeviceGetLuid(luid, &nodes, 9), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetLuid(nullptr, &nodes, 0), CUDA_ERROR_INVALID_VALUE);
  const auto context = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
  EXPECT_EQ(cuFlushGPUDirectRDMAWrites(context, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuFlushGPUDirectRDMAWrites(context, static_cast<CUflushGPUDirectRDMAWritesScope>(1)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA_ERROR(
      cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                         cudaFlushGPUDirectRDMAWritesToAllDevices),
      cudaErrorNotSupported);
}

TEST_F(DriverQueriesTest, TheLogIsEmpty) {
  unsigned iterator = 7;
  EXPECT_EQ(cuLogsCurrent(&iterator, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuLogsCurrent(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  char text[] = "text";
  std::size_t bytes = sizeof text;
  EXPECT_EQ(cuLogsDumpToMemory(&iterator, text, &bytes, 0), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 0U);
  EXPECT_STREQ(text, "");
  EXPECT_EQ(cuLogsDumpToMemory(&iterator, nullptr, &bytes, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsDumpToMemory(&iterator, text, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  const std::string path = ::testing::TempDir() + "cuspan_log_" + std::to_string(getpid());
  EXPECT_EQ(cuLogsDumpToFile(&iterator, path.c_str(), 0), CUDA_SUCCESS);
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(cuLogsDumpToFile(&iterator, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsDumpToFile(&iterator, "/no/such/folder/log", 0), CUDA_ERROR_INVALID_VALUE);

  CUlogsCallbackHandle handle = nullptr;
  const CUlogsCallback callback = [](void*, CUlogLevel, char*, std::size_t) { ADD_FAILURE(); };
  EXPECT_EQ(cuLogsRegisterCallback(callback, nullptr, &handle), CUDA_SUCCESS);
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(cuLogsRegisterCallback(callback, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLogsRegisterCallback(nullptr, nullptr, &handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsUnregisterCallback(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuLogsUnregisterCallback(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cudaLogsCurrent(&iterator, 0));
  EXPECT_CUDA(cudaLogsDumpToMemory(nullptr, text, &bytes, 0));
}

TEST_F(DriverQueriesTest, AContextEndsWithTheLastWhoWasAttached) {
  std::thread([] {
    CUcontext found = nullptr;
    EXPECT_EQ(cuCtxAttach(&found, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxDetach(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext primary = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxAttach(&found, 0), CUDA_SUCCESS);
    EXPECT_EQ(found, primary);
    EXPECT_EQ(cuCtxAttach(&found, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxAttach(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cuCtxDetach(primary), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    CUcontext made = nullptr;
    ASSERT_EQ(cuCtxCreate(&made, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxAttach(&found, 0), CUDA_SUCCESS);
    EXPECT_EQ(found, made);
    EXPECT_EQ(cuCtxDetach(primary), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxDetach(made), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxDetach(made), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxGetCurrent(&found), CUDA_SUCCESS);
    EXPECT_EQ(found, primary);
    EXPECT_EQ(cuCtxDetach(made), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }).join();
}

// Its kernels and variables are those of its own context.
TEST_F(DriverQueriesTest, AModuleAnswersWhileAnotherContextIsCurrent) {
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"),
            CUDA_SUCCESS);
  CUcontext own = nullptr;
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&own), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  unsigned count = 0;
  CUfunction add = nullptr;
  int value = 0;
  EXPECT_EQ(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
  EXPECT_GT(count, 0U);
  EXPECT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add), CUDA_SUCCESS);
  EXPECT_GT(value, 0);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, add, 32, 0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  unsigned number = 1;
  void* arguments[] = {&address, &number, &number};
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = add;
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(own), CUDA_SUCCESS);
  std::uint32_t* words = NewWords(1);
  address = reinterpret_cast<CUdeviceptr>(words);
  EXPECT_EQ(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{1});
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(DriverQueriesTest, WhatWasSaidOfAFunctionIsLaunched) {
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"),
            CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  std::uint32_t* words = NewWords(2);
  EXPECT_EQ(cuLaunch(add), CUDA_ERROR_INVALID_VALUE) << "arguments are missing";
  EXPECT_EQ(cuFuncSetBlockShape(add, 2, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetSharedSize(add, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetSize(add, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetv(add, 0, &words, sizeof words), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSeti(add, 8, 2), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSeti(add, 12, 5), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunch(add), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSeti(add, 12, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchGrid(add, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(Read(words, 2), (std::vector<std::uint32_t>{6, 6}));
  cudaStream_t stream = NewStream();
  EXPECT_EQ(cuParamSetf(add, 12, 1.0F), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchGridAsync(add, 1, 1, stream), CUDA_SUCCESS);
  EXPECT_EQ(Read(words, 1), (std::vector<std::uint32_t>{6 + 0x3f80'0000}));

  EXPECT_EQ(cuFuncSetBlockShape(add, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(add, 64, 64, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetBlockShape(nullptr, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuParamSetSize(add, 32'764), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetSize(add, 40'000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetSize(add, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetv(add, -4, &words, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetv(add, 0, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetv(add, 0, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSeti(add, 32'764, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunch(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchGrid(add, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchGrid(add, -1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(DriverQueriesTest, KernelsTellHowManyParametersTheyHave) {
  std::size_t count = 0;
  EXPECT_CUDA(cudaFuncGetParamCount(Kernel("add"), &count));
  EXPECT_EQ(count, 3U);
  EXPECT_CUDA(cudaFuncGetParamCount(Kernel("nothing"), &count));
  EXPECT_EQ(count, 0U);
  EXPECT_CUDA_ERROR(cudaFuncGetParamCount(Kernel("add"), nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan
