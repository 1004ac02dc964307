// The client and the proxies of its devices in one process: the session's devices are opened not by
// an agent, but here, and each is served by a thread that runs the proxy's loop over the fake GPU.
// The tests call the CUDA runtime as programs do.
#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "interpose/client/session.h"
#include "tests/unit/proxy/server/fake_gpu.h"

namespace cuspan {

// Expects a call to work, and says which error it gave.
#define EXPECT_CUDA(call) EXPECT_STREQ(cudaGetErrorName(call), "cudaSuccess")
#define ASSERT_CUDA(call) ASSERT_STREQ(cudaGetErrorName(call), "cudaSuccess")
#define EXPECT_CUDA_ERROR(call, error) EXPECT_STREQ(cudaGetErrorName(call), #error)

// Devices of the process's session, which are on another node as far as the client knows: their
// proxies do not have the program's memory. Each test has a fake GPU of its own, which all its
// devices are: memory and streams are of one numbering.
class LoopbackTest : public ::testing::Test {
 public:
  static constexpr int kDevices = 2;

 protected:
  LoopbackTest();
  // Resets all devices, whose proxies end.
  ~LoopbackTest() override;

  // The proxy of the device is gone, as if it had been killed.
  static void LoseProxy(int device);

  static Session& session();
  proxy::FakeGpu& gpu() { return *gpu_; }

  // The kernel `add` of the fake GPU as the runtime knows it: adds `value` to `count` 32-bit words.
  cudaError_t Add(std::uint32_t* words, std::uint32_t count, std::uint32_t value,
                  cudaStream_t stream);
  // A kernel of the fake GPU without parameters: "nothing", "refused", "faults".
  cudaError_t Launch(const char* kernel, cudaStream_t stream);

 private:
  cudaKernel_t Kernel(const char* name);

  std::unique_ptr<proxy::FakeGpu> gpu_;
  cudaLibrary_t library_ = nullptr;
};

}  // namespace cuspan
