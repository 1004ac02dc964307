// Launches refused by CUDA, and their errors. The limits are those of an H200.
#include "interpose/calls/launch_limits.h"

#include <gtest/gtest.h>
#include <vector_types.h>

#include <limits>

namespace cuspan {
namespace {

DeviceDescription Device() {
  DeviceDescription device;
  device.attributes.resize(CU_DEVICE_ATTRIBUTE_MAX);
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 2147483647;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535;
  device.attributes[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536;
  return device;
}

LoadedKernel Kernel(int threads, int registers, int dynamic_shared) {
  LoadedKernel kernel{};
  kernel.attributes = std::vector<std::atomic<int>>(16);
  kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = threads;
  kernel.attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = registers;
  kernel.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = dynamic_shared;
  return kernel;
}

cudaError_t Check(dim3 grid, dim3 block, std::size_t shared = 0,
                  const LoadedKernel& kernel = Kernel(1024, 8, 49152)) {
  const LaunchShape shape{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared};
  return CheckLaunch(Device(), kernel, shape).runtime();
}

TEST(LaunchLimits, AllowWhatTheDeviceHas) {
  EXPECT_EQ(Check(1, 1), cudaSuccess);
  EXPECT_EQ(Check({2147483647, 65535, 65535}, 1), cudaSuccess);
  EXPECT_EQ(Check(1, {16, 1, 64}), cudaSuccess);
  EXPECT_EQ(Check(1, 1024, 49152), cudaSuccess);
}

TEST(LaunchLimits, RefuseDimensionsThatCanNotBe) {
  EXPECT_EQ(Check(0, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check({1, 0, 1}, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check(1, {1, 1, 0}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check(1, {1, 1, 65}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check(1, {32, 32, 2}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check({1, 65536, 1}, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Check({0x80000000U, 1, 1}, 1), cudaErrorInvalidConfiguration);
}

TEST(LaunchLimits, RefuseSharedMemoryThatTheKernelDoesNotHave) {
  EXPECT_EQ(Check(1, 1, 49153), cudaErrorInvalidValue);
  EXPECT_EQ(Check(1, 1, std::numeric_limits<std::size_t>::max()), cudaErrorInvalidValue);
}

// Measured on an H200: __launch_bounds__(256) with 512 threads, and 214 registers in each of 1024
// threads.
TEST(LaunchLimits, RefuseMoreThreadsThanTheKernelCanHave) {
  EXPECT_EQ(Check(1, 512, 0, Kernel(256, 8, 49152)), cudaErrorInvalidValue);
  EXPECT_EQ(Check(1, 1024, 0, Kernel(256, 214, 49152)), cudaErrorLaunchOutOfResources);
}

}  // namespace
}  // namespace cuspan
