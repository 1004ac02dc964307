// The client and the proxies of its devices in one process. The session's devices are opened here,
// without an agent. A thread serves each device: it runs the proxy's loop over the fake GPU. The
// tests call the CUDA runtime as programs do.
#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpose/client/session.h"
#include "tests/unit/proxy/loopback/fake_gpu.h"

namespace cuspan {

// Expect success of a call, and print its error otherwise.
#define EXPECT_CUDA(call) EXPECT_STREQ(cudaGetErrorName(call), "cudaSuccess")
#define ASSERT_CUDA(call) ASSERT_STREQ(cudaGetErrorName(call), "cudaSuccess")
#define EXPECT_CUDA_ERROR(call, error) EXPECT_STREQ(cudaGetErrorName(call), #error)

// 0, 1, 2, …
std::vector<std::uint32_t> Count(std::size_t words);

// Devices of the process's session. To the client, they are on another node: their proxies do not
// have the program's memory. Each test has its own fake GPU with one context per device, so stream
// numbers are common to all devices.
class LoopbackTest : public ::testing::Test {
 public:
  static constexpr int kDevices = 2;

 protected:
  LoopbackTest();
  // Lets all streams run and resets all devices. Their proxies end.
  ~LoopbackTest() override;

  // Ends the proxy of the device as if it had been killed.
  static void LoseProxy(int device);

  static Session& session();
  proxy::FakeGpu& gpu() { return *gpu_; }

  // Keeps work submitted to the stream from now on pending, until Let. The stream must have no
  // pending work and no pending dependencies, because Hold runs work in it. A default stream is the
  // current device's.
  void Hold(cudaStream_t stream);
  void Let(cudaStream_t stream) { gpu().Let(NumberOf(stream)); }
  // Returns the number of a held stream in the fake GPU and its log.
  int NumberOf(cudaStream_t stream) const { return numbers_.at(stream); }
  // Waits until this work ("add", "to-device", …) has been submitted to a held stream.
  bool WaitForWork(cudaStream_t stream, const std::string& work) const {
    return gpu_->WaitForLog(work + " " + std::to_string(NumberOf(stream)));
  }

  // Fail the test on error.
  static cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking);
  static cudaEvent_t NewEvent(unsigned flags = cudaEventDefault);
  // Return device memory, set to 0, and its contents after all work of the device.
  static std::uint32_t* NewWords(std::size_t count);
  static std::vector<std::uint32_t> Read(const std::uint32_t* words, std::size_t count);
  // Returns the first word after the work of this stream, independent of other streams.
  static std::uint32_t ReadWord(const std::uint32_t* words, cudaStream_t stream);

  // Launches the fake GPU's kernel `add` through the runtime: adds `value` to `count` 32-bit words.
  cudaError_t Add(std::uint32_t* words, std::uint32_t count, std::uint32_t value,
                  cudaStream_t stream);
  // Launches a kernel of the fake GPU without parameters: "nothing", "refused", "faults".
  cudaError_t Launch(const char* kernel, cudaStream_t stream);
  // Returns the handle for functions of the runtime. Looked up only once, so it works after a loss
  // of the device.
  const void* Kernel(const char* name);

 private:
  std::unique_ptr<proxy::FakeGpu> gpu_;
  cudaLibrary_t library_ = nullptr;
  std::map<std::string, cudaKernel_t> kernels_;
  std::map<cudaStream_t, int> numbers_;  // Numbers of held streams.
};

}  // namespace cuspan
