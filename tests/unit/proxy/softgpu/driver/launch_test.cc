// Tests launches of kernels from a fat binary of nvcc: results and launch options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

using LaunchTest = DriverTest;

TEST_F(LaunchTest, AddsVectorsWithConstants) {
  const int n = 1000;
  std::vector<float> a(n), b(n);
  for (int i = 0; i < n; ++i) {
    a[i] = i * 0.5f;
    b[i] = i * 0.25f;
  }
  DeviceMemory on_device(3 * 4096);
  const CUdeviceptr da = on_device.address(), db = da + 4096, dc = da + 8192;
  ASSERT_CUDA(cuMemcpyHtoDAsync(da, a.data(), n * 4, nullptr));
  ASSERT_CUDA(cuMemcpyHtoDAsync(db, b.data(), n * 4, nullptr));
  ASSERT_CUDA(Launch(Kernel("Add"), (n + 127) / 128, 128, 0, nullptr, da, db, dc, n));
  std::vector<float> sum(n);
  ASSERT_CUDA(cuMemcpyDtoHAsync(sum.data(), dc, n * 4, nullptr));
  ASSERT_CUDA(cuStreamSynchronize(nullptr));
  for (int i = 0; i < n; ++i) ASSERT_EQ(sum[i], a[i] + b[i] * (i % 4 + 1)) << i;
}

// Same behaviour as an H200. Programs do this unknowingly.
TEST_F(LaunchTest, ConstantMemoryCanBeReadBeyondATable) {
  DeviceMemory result(4);
  for (const int at : {3, 4, 1000, 16000}) {
    result.Write<float>({-1});
    ASSERT_CUDA(Launch(Kernel("ReadWeight"), 1, 1, 0, nullptr, at, result.address()));
    EXPECT_EQ(result.Read<float>(1)[0], at == 3 ? 4.0f : 0.0f) << at;
  }
}

TEST_F(LaunchTest, MultipliesMatricesThroughSharedMemory) {
  const int n = 64;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i % 7);
    b[i] = static_cast<float>(i % 5);
  }
  DeviceMemory da(n * n * 4), db(n * n * 4), dc(n * n * 4);
  da.Write(a);
  db.Write(b);
  CUdeviceptr pa = da.address(), pb = db.address(), pc = dc.address();
  int count = n;
  void* args[] = {&pa, &pb, &pc, &count};
  ASSERT_CUDA(
      cuLaunchKernel(Kernel("MatMul"), n / 16, n / 16, 1, 16, 16, 1, 0, nullptr, args, nullptr));
  const auto c = dc.Read<float>(n * n);
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) {
      float sum = 0;  // Small integers: exact in any order.
      for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
      ASSERT_EQ(c[row * n + column], sum);
    }
  }
}

TEST_F(LaunchTest, ReducesWithShufflesAndAtomics) {
  std::vector<int> values(100'000);
  std::iota(values.begin(), values.end(), -5000);
  DeviceMemory on_device(values.size() * 4), total(4);
  on_device.Write(values);
  total.Write<int>({0});
  ASSERT_CUDA(Launch(Kernel("Reduce"), 16, 256, 0, nullptr, on_device.address(),
                     static_cast<int>(values.size()), total.address()));
  EXPECT_EQ(total.Read<int>(1)[0],
            static_cast<int>(std::accumulate(values.begin(), values.end(), 0LL)));
}

TEST_F(LaunchTest, DynamicSharedMemoryFollowsTheLaunch) {
  for (const unsigned n : {1u, 100u, 1024u}) {
    std::vector<int> values(n), reversed(n);
    std::iota(values.begin(), values.end(), 0);
    std::reverse_copy(values.begin(), values.end(), reversed.begin());
    DeviceMemory on_device(n * 4);
    on_device.Write(values);
    ASSERT_CUDA(Launch(Kernel("Reverse"), 1, n, n * 4, nullptr, on_device.address()));
    EXPECT_EQ(on_device.Read<int>(n), reversed);
  }
}

struct Shape {
  char kind;
  double scale;
  int offset[3];
};

TEST_F(LaunchTest, ParametersOfAllSizesArrive) {
  const CUfunction mixed = Kernel("Mixed");
  const std::size_t offsets[] = {0, 8, 40, 48}, sizes[] = {1, sizeof(Shape), 2, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    std::size_t offset = 0, bytes = 0;
    ASSERT_CUDA(cuFuncGetParamInfo(mixed, i, &offset, &bytes));
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(bytes, sizes[i]);
  }
  std::size_t offset = 0;
  EXPECT_EQ(cuFuncGetParamInfo(mixed, 4, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetParamInfo(mixed, 0, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuFuncGetParamInfo(mixed, 1, &offset, nullptr));

  DeviceMemory result(8);
  const Shape shape{'A', 2.5, {1, 4, 9}};
  ASSERT_CUDA(Launch(mixed, 1, 1, 0, nullptr, char{3}, shape, short{-20}, result.address()));
  EXPECT_EQ(result.Read<double>(1)[0], 3 + 2.5 * 4 - 20 + 'A');

  // The same arguments in one buffer.
  std::vector<std::uint8_t> buffer(56);
  const char a = 4;
  const short b = 7;
  const CUdeviceptr to = result.address();
  std::memcpy(buffer.data(), &a, 1);
  std::memcpy(buffer.data() + 8, &shape, sizeof(shape));
  std::memcpy(buffer.data() + 40, &b, 2);
  std::memcpy(buffer.data() + 48, &to, 8);
  std::size_t bytes = buffer.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  ASSERT_CUDA(cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(result.Read<double>(1)[0], 4 + 2.5 * 4 + 7 + 'A');
}

TEST_F(LaunchTest, ModuleVariablesKeepTheirValues) {
  CUdeviceptr counter = 0;
  std::size_t bytes = 0;
  ASSERT_CUDA(cuModuleGetGlobal(&counter, &bytes, module_, "counter"));
  EXPECT_EQ(bytes, 4u);
  DeviceMemory seen(4);
  ASSERT_CUDA(Launch(Kernel("Count"), 1, 1, 0, nullptr, seen.address()));
  EXPECT_EQ(seen.Read<int>(1)[0], 8);
  const int fresh = 41;
  ASSERT_CUDA(cuMemcpyHtoDAsync(counter, &fresh, 4, nullptr));
  ASSERT_CUDA(Launch(Kernel("Count"), 1, 1, 0, nullptr, seen.address()));
  EXPECT_EQ(seen.Read<int>(1)[0], 42);
}

TEST_F(LaunchTest, CooperativeGridsSynchronise) {
  DeviceMemory words(8);
  words.Write<int>({0, 0});
  CUdeviceptr arrived = words.address(), wrong = words.address() + 4;
  void* args[] = {&arrived, &wrong};
  const CUfunction kernel = Kernel("GridSync");
  int blocks = 0;
  ASSERT_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 128, 0, 0));
  int processors = 0;
  ASSERT_CUDA(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  const auto most = static_cast<unsigned>(blocks * processors);
  ASSERT_GE(most, 4u);
  const unsigned grid = std::min(most, 24u);
  ASSERT_CUDA(cuLaunchCooperativeKernel(kernel, grid, 1, 1, 128, 1, 1, 0, nullptr, args));
  const auto seen = words.Read<int>(2);
  EXPECT_EQ(seen[0], static_cast<int>(3 * grid));
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(cuLaunchCooperativeKernel(kernel, most + 1, 1, 1, 128, 1, 1, 0, nullptr, args),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_F(LaunchTest, ShapesBeyondTheLimitsAreInvalid) {
  DeviceMemory memory(4096);
  CUdeviceptr to = memory.address();
  int value = 1;
  void* args[] = {&to, &value};
  const CUfunction store = Kernel("Store");
  const auto launch = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz) {
    return cuLaunchKernel(store, gx, gy, gz, bx, by, bz, 0, nullptr, args, nullptr);
  };
  EXPECT_CUDA(launch(1, 1, 1, 1024, 1, 1));
  EXPECT_EQ(launch(0, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 1, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 1, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 1, 64, 32, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(0x80000000, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 65536, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 65536, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(Kernel("Bounded"), 1, 129, 0, nullptr, to), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(Launch(Kernel("Bounded"), 1, 128, 0, nullptr, to));
  EXPECT_CUDA(cuCtxSynchronize());
}

TEST_F(LaunchTest, SharedMemoryBeyondTheLimitNeedsTheAttribute) {
  DeviceMemory memory(4096);
  const CUdeviceptr to = memory.address();
  const CUfunction reverse = Kernel("Reverse");
  EXPECT_CUDA(Launch(reverse, 1, 32, 48 * 1024, nullptr, to));
  EXPECT_EQ(Launch(reverse, 1, 32, 48 * 1024 + 1, nullptr, to), CUDA_ERROR_INVALID_VALUE);
  int most = 0;
  ASSERT_CUDA(
      cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  ASSERT_GE(most, 99 * 1024);
  const auto attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(cuFuncSetAttribute(reverse, attribute, most + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(reverse, attribute, -1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuFuncSetAttribute(reverse, attribute, most));
  int value = 0;
  EXPECT_CUDA(cuFuncGetAttribute(&value, attribute, reverse));
  EXPECT_EQ(value, most);
  EXPECT_CUDA(Launch(reverse, 1, 32, static_cast<unsigned>(most), nullptr, to));
  EXPECT_CUDA(cuCtxSynchronize());
}

TEST_F(LaunchTest, WrongArgumentsAndHandlesAreErrors) {
  const CUfunction store = Kernel("Store");
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  EXPECT_EQ(cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(99), store),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetCacheConfig(store, static_cast<CUfunc_cache>(9)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuFuncSetCacheConfig(store, CU_FUNC_CACHE_PREFER_SHARED));
}

TEST_F(LaunchTest, AttributesDescribeTheKernel) {
  const auto attribute = [](CUfunction function, CUfunction_attribute which) {
    int value = -1;
    EXPECT_CUDA(cuFuncGetAttribute(&value, which, function));
    return value;
  };
  EXPECT_EQ(attribute(Kernel("Store"), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_EQ(attribute(Kernel("Bounded"), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
  EXPECT_EQ(attribute(Kernel("Store"), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
  EXPECT_EQ(attribute(Kernel("MatMul"), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 2 * 16 * 16 * 4);
  EXPECT_EQ(attribute(Kernel("Store"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 48 * 1024);
  EXPECT_GT(attribute(Kernel("Store"), CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
}

TEST_F(LaunchTest, OccupancyFollowsThreadsAndSharedMemory) {
  const CUfunction store = Kernel("Store");
  int blocks = -1;
  const auto occupancy = [&](int threads, std::size_t shared) {
    EXPECT_CUDA(
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, store, threads, shared, 0));
    return blocks;
  };
  int threads_each = 0, shared_each = 0;
  ASSERT_CUDA(
      cuDeviceGetAttribute(&threads_each, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
  ASSERT_CUDA(cuDeviceGetAttribute(&shared_each,
                                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0));
  EXPECT_EQ(occupancy(1024, 0), threads_each / 1024);
  EXPECT_EQ(occupancy(256, 0), threads_each / 256);
  EXPECT_LE(occupancy(128, 40 * 1024) * 40 * 1024, shared_each);
  EXPECT_GE(occupancy(128, 40 * 1024), 1);
  EXPECT_EQ(occupancy(1025, 0), 0);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, store, 0, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  std::size_t bytes = 0;
  EXPECT_CUDA(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, store, 1, 128));
  EXPECT_EQ(bytes, 48u * 1024);
  EXPECT_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, store, 4, 1024),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, PrintfReachesStdout) {
  testing::internal::CaptureStdout();
  EXPECT_CUDA(Launch(Kernel("Print"), 1, 2, 0, nullptr, 5));
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "block 0 says 5 and 0.25\nblock 0 says 5 and 0.25\n");
}

}  // namespace
}  // namespace cuspan::softgpu
