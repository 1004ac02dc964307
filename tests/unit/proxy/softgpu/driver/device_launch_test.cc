// Tests dynamic parallelism at its limits. (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism")
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

constexpr int kMaxDepthExceeded = 65;  // cudaErrorLaunchMaxDepthExceeded

class DeviceLaunchTest : public DriverTest {
 protected:
  // Code losing the context runs in a fresh copy of this program.
  DeviceLaunchTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_CUDA(cuModuleLoadData(&launching_, ReadTestFile("device_launch.ptx").data()));
    data_ = std::make_unique<DeviceMemory>(64 * sizeof(int));
    data_->Write(std::vector<int>(64));
  }
  void TearDown() override {
    data_.reset();
    EXPECT_CUDA(cuModuleUnload(launching_));
    DriverTest::TearDown();
  }
  template <typename... Args>
  CUresult Start(const char* name, Args... args) {
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleGetFunction(&function, launching_, name)) << name;
    return Launch(function, 1, 1, 0, nullptr, data_->address(), args...);
  }
  std::unique_ptr<DeviceMemory> data_;
  CUmodule launching_ = nullptr;
};

TEST_F(DeviceLaunchTest, GridsGoNoDeeperThanTheLimit) {
  ASSERT_CUDA(Start("Endless", 0));
  EXPECT_EQ(data_->Read<int>(2), (std::vector<int>{24, kMaxDepthExceeded}));
}

TEST_F(DeviceLaunchTest, TailLaunchesAreNotDeeper) {
  ASSERT_CUDA(Start("Again", 100));
  EXPECT_EQ(data_->Read<int>(1)[0], 100);
}

TEST_F(DeviceLaunchTest, ChildrenHaveSharedMemory) {
  ASSERT_CUDA(Start("LaunchShared"));
  const auto values = data_->Read<int>(64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(values[i], 63 - i);
}

TEST_F(DeviceLaunchTest, AChildThatFaultsEndsTheContext) {
  for (const char* kernel : {"WriteNowhere", "SetNowhere"}) {
    EXPECT_EXIT(
        {
          static_cast<void>(Start(kernel));
          std::_Exit(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1);
        },
        testing::ExitedWithCode(0), "by a kernel|kernel Write")
        << kernel;
  }
}

}  // namespace
}  // namespace cuspan::softgpu
