// The client and the proxies of its devices in one process: the session's devices are opened not by
// an agent, but here, and each is served by a thread that runs the proxy's loop over the fake GPU.
// The tests call the CUDA runtime as programs do.
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

// Expects a call to work, and says which error it gave.
#define EXPECT_CUDA(call) EXPECT_STREQ(cudaGetErrorName(call), "cudaSuccess")
#define ASSERT_CUDA(call) ASSERT_STREQ(cudaGetErrorName(call), "cudaSuccess")
#define EXPECT_CUDA_ERROR(call, error) EXPECT_STREQ(cudaGetErrorName(call), #error)

// 0, 1, 2, …
std::vector<std::uint32_t> Count(std::size_t words);

// Devices of the process's session, which are on another node as far as the client knows: their
// proxies do not have the program's memory. Each test has a fake GPU of its own, in which each
// device is a context: streams are of one numbering.
class LoopbackTest : public ::testing::Test {
 public:
  static constexpr int kDevices = 2;

 protected:
  LoopbackTest();
  // Lets all streams run and resets all devices, whose proxies end.
  ~LoopbackTest() override;

  // The proxy of the device is gone, as if it had been killed.
  static void LoseProxy(int device);

  static Session& session();
  proxy::FakeGpu& gpu() { return *gpu_; }

  // What is posted to the stream from now on stays pending, until Let. Nothing may be pending in it
  // or in its way: something is run in it. A default stream is that of the current device.
  void Hold(cudaStream_t stream);
  void Let(cudaStream_t stream) { gpu().Let(NumberOf(stream)); }
  // Of a stream that was held: as the fake GPU counts and its log says.
  int NumberOf(cudaStream_t stream) const { return numbers_.at(stream); }
  // Waits until this ("add", "to-device", …) was handed over to a stream that was held.
  bool WaitForWork(cudaStream_t stream, const std::string& work) const {
    return gpu_->WaitForLog(work + " " + std::to_string(NumberOf(stream)));
  }

  // Fail the test when there is none to be had.
  static cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking);
  static cudaEvent_t NewEvent(unsigned flags = cudaEventDefault);
  // Device memory that is 0 when it returns, and what it holds when all of the device is done.
  static std::uint32_t* NewWords(std::size_t count);
  static std::vector<std::uint32_t> Read(const std::uint32_t* words, std::size_t count);
  // The first word, as far as this stream has come, whatever others do.
  static std::uint32_t ReadWord(const std::uint32_t* words, cudaStream_t stream);

  // The kernel `add` of the fake GPU as the runtime knows it: adds `value` to `count` 32-bit words.
  cudaError_t Add(std::uint32_t* words, std::uint32_t count, std::uint32_t value,
                  cudaStream_t stream);
  // A kernel of the fake GPU without parameters: "nothing", "refused", "faults".
  cudaError_t Launch(const char* kernel, cudaStream_t stream);
  // As the functions of the runtime take it; found once, so that a lost device does no harm.
  const void* Kernel(const char* name);

 private:
  std::unique_ptr<proxy::FakeGpu> gpu_;
  cudaLibrary_t library_ = nullptr;
  std::map<std::string, cudaKernel_t> kernels_;
  std::map<cudaStream_t, int> numbers_;  // Of streams that were held.
};

}  // namespace cuspan
