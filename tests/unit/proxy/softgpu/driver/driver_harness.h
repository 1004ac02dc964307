// The software GPU from a program's view, using only the driver's functions. If LD_LIBRARY_PATH
// contains another libcuda.so.1, these tests run on it.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/device_memory.h"

namespace cuspan::softgpu {

// Ends a child process of a test, with status 0 if no expectation failed.
[[noreturn]] inline void Finish() { std::exit(testing::Test::HasFailure() ? 1 : 0); }

inline std::vector<char> ReadTestFile(const std::string& name) {
  std::ifstream file(std::filesystem::path(CUSPAN_TEST_FOLDER) / name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  bytes.push_back('\0');
  return bytes;
}

// Device 0's primary context, current in the test's thread, and the test kernels.
class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    ConfigureTestDevices();
    ASSERT_CUDA(cuInit(0));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    const std::vector<char> image = ReadTestFile("kernels.fatbin");
    ASSERT_CUDA(cuModuleLoadData(&module_, image.data()));
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    cuCtxSetCurrent(context_);
    EXPECT_CUDA(cuModuleUnload(module_));
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    cuCtxSetCurrent(nullptr);
  }

  CUfunction Kernel(const char* name) {
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleGetFunction(&function, module_, name)) << name;
    return function;
  }

  template <typename... Args>
  static CUresult Launch(CUfunction function, unsigned grid, unsigned block, unsigned shared,
                         CUstream stream, Args... args) {
    void* pointers[] = {&args..., nullptr};
    return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, pointers, nullptr);
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};

// A stream destroyed at the end of its scope.
class TestStream {
 public:
  explicit TestStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    EXPECT_CUDA(cuStreamCreateWithPriority(&stream_, flags, 0));
  }
  ~TestStream() { EXPECT_CUDA(cuStreamDestroy(stream_)); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator CUstream() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

// A kernel keeping a stream busy until Open, to test order without clocks. The flag is registered
// host memory.
class Gate {
 public:
  Gate(CUfunction wait_for, CUstream stream) {
    flag_ = static_cast<volatile int*>(std::aligned_alloc(4096, 4096));
    *flag_ = 0;
    EXPECT_CUDA(cuMemHostRegister(const_cast<int*>(flag_), 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    void* flag = const_cast<int*>(flag_);
    void* args[] = {&flag};
    EXPECT_CUDA(cuLaunchKernel(wait_for, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr));
  }
  ~Gate() {
    Open();
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(cuMemHostUnregister(const_cast<int*>(flag_)));
    std::free(const_cast<int*>(flag_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void Open() { *flag_ = 1; }

 private:
  volatile int* flag_;
};

}  // namespace cuspan::softgpu
