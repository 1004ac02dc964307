// Launches, and their errors.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class LaunchesTest : public LoopbackTest {
 protected:
  cudaError_t LaunchShaped(dim3 grid, dim3 block, std::size_t shared = 0) {
    return cudaLaunchKernel(Kernel("nothing"), grid, block, nullptr, shared, nullptr);
  }
  // Expects a working device.
  void ExpectWorks() {
    std::uint32_t* const words = NewWords(10);
    EXPECT_CUDA(Add(words, 10, 3, nullptr));
    EXPECT_EQ(Read(words, 10), std::vector<std::uint32_t>(10, 3));
  }
};

TEST_F(LaunchesTest, ArgumentsAreTakenWhenTheLaunchReturns) {
  std::uint32_t* const words = NewWords(4);
  cudaStream_t stream = NewStream();
  Hold(stream);
  std::uint32_t* target = words;
  std::uint32_t count = 1;
  std::uint32_t value = 1;
  void* arguments[] = {&target, &count, &value};
  for (int i = 0; i < 4; ++i) {
    ASSERT_CUDA(cudaLaunchKernel(Kernel("add"), {1, 1, 1}, {1, 1, 1}, arguments, 0, stream));
    ++target;
    ++value;
  }
  Let(stream);
  EXPECT_EQ(Read(words, 4), (std::vector<std::uint32_t>{1, 2, 3, 4}));
}

// Each launch function refuses a shape beyond the device's limits, with the error of runtime 13.
TEST_F(LaunchesTest, WrongShapesAreRefused) {
  EXPECT_CUDA(LaunchShaped({1024, 1, 1}, {1024, 1, 1}));
  cudaStream_t stream = NewStream();
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  const struct {
    dim3 grid;
    dim3 block;
    unsigned shared;
  } shapes[] = {{{0, 1, 1}, {1, 1, 1}, 0},   {{1, 1025, 1}, {1, 1, 1}, 0},
                {{1, 1, 1}, {1, 0, 1}, 0},   {{1, 1, 1}, {1025, 1, 1}, 0},
                {{1, 1, 1}, {64, 32, 1}, 0}, {{1, 1, 1}, {1, 1, 1}, 1 << 30}};
  for (const auto& [grid, block, shared] : shapes) {
    EXPECT_CUDA_ERROR(LaunchShaped(grid, block, shared), cudaErrorInvalidValue);
    EXPECT_CUDA_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    EXPECT_CUDA_ERROR(cudaLaunchKernelExC(&config, Kernel("nothing"), nullptr),
                      cudaErrorInvalidValue);
    EXPECT_EQ(cudaLaunchCooperativeKernel(Kernel("nothing"), grid, block, nullptr, shared, nullptr),
              shared == 0 ? cudaErrorInvalidValue : cudaErrorCooperativeLaunchTooLarge);
    cudaKernelNodeParams node{};
    node.func = const_cast<void*>(Kernel("nothing"));
    node.gridDim = grid;
    node.blockDim = block;
    node.sharedMemBytes = shared;
    cudaGraphNode_t made = nullptr;
    EXPECT_CUDA_ERROR(cudaGraphAddKernelNode(&made, graph, nullptr, 0, &node),
                      cudaErrorInvalidValue);
    // The same in a capture. It invalidates the capture.
    cudaGraph_t captured = nullptr;
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT_CUDA_ERROR(cudaLaunchKernel(Kernel("nothing"), grid, block, nullptr, shared, stream),
                      cudaErrorInvalidValue);
    EXPECT_CUDA_ERROR(cudaStreamEndCapture(stream, &captured), cudaErrorStreamCaptureInvalidated);
    static_cast<void>(cudaGetLastError());
  }
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST_F(LaunchesTest, FunctionsThatAreNoneAreRefused) {
  int here = 0;
  cudaStream_t stream = NewStream();
  EXPECT_CUDA_ERROR(cudaLaunchKernel(nullptr, {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream),
                    cudaErrorInvalidDeviceFunction);
  cudaFuncAttributes attributes{};
  int blocks = 0;
  EXPECT_CUDA_ERROR(cudaLaunchKernel(&here, {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream),
                    cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaFuncGetAttributes(&attributes, &here), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &here, 32, 0),
                    cudaErrorInvalidResourceHandle);
  ExpectWorks();
}

// The launch itself may succeed. In this case a later call of the thread returns the error, once.
TEST_F(LaunchesTest, ARefusedLaunchIsTold) {
  const cudaError_t launched = Launch("refused", nullptr);
  const cudaError_t later = cudaDeviceSynchronize();
  EXPECT_EQ(launched != cudaSuccess ? launched : later, cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaGetLastError());
  EXPECT_CUDA(cudaDeviceSynchronize());
  ExpectWorks();
}

TEST_F(LaunchesTest, ARefusedLaunchIsToldToTheThreadThatMadeIt) {
  std::promise<void> refused;
  std::promise<void> others_looked;
  auto other = std::async(std::launch::async, [&] {
    const cudaError_t launched = Launch("refused", nullptr);
    refused.set_value();
    others_looked.get_future().wait();
    const cudaError_t later = cudaStreamSynchronize(nullptr);
    EXPECT_EQ(launched != cudaSuccess ? launched : later, cudaErrorInvalidValue);
  });
  refused.get_future().wait();
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaGetLastError());
  others_looked.set_value();
  other.get();
}

TEST_F(LaunchesTest, WorkBehindARefusedLaunchIsDone) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  static_cast<void>(Launch("refused", stream));
  static_cast<void>(Add(words, 1, 1, stream));
  static_cast<void>(cudaStreamSynchronize(stream));
  static_cast<void>(cudaGetLastError());
  EXPECT_EQ(Read(words, 1).front(), 1U);
}

TEST_F(LaunchesTest, AFaultStaysUntilTheDeviceIsReset) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaEventSynchronize(event));
  ASSERT_CUDA(Launch("nothing", stream));
  static_cast<void>(Launch("faults", stream));
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  // All later calls return the fault, and reading the last error does not clear it.
  void* memory = nullptr;
  std::uint32_t word = 0;
  EXPECT_CUDA_ERROR(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(cudaMemcpy(&word, words, 4, cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(Launch("nothing", stream), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(cudaEventRecord(event, stream), cudaErrorIllegalAddress);
  EXPECT_CUDA_ERROR(cudaFree(words), cudaErrorIllegalAddress);
  std::async(std::launch::async, [] {
    EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  }).get();
  ASSERT_CUDA(cudaDeviceReset());
  static_cast<void>(cudaGetLastError());
  ExpectWorks();
}

TEST_F(LaunchesTest, AFaultIsItsDevices) {
  ASSERT_CUDA(cudaSetDevice(1));
  cudaStream_t other = NewStream();
  ASSERT_CUDA(cudaSetDevice(0));
  static_cast<void>(Launch("faults", nullptr));
  EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  ExpectWorks();
}

TEST_F(LaunchesTest, MemoryThatIsNotThereIsAFault) {
  static_cast<void>(Add(reinterpret_cast<std::uint32_t*>(0x1000), 4, 1, nullptr));
  EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ASSERT_CUDA(cudaDeviceReset());
  ExpectWorks();
}

TEST_F(LaunchesTest, WhoWaitsWhileAFaultComesIsTold) {
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(stream);
  ASSERT_CUDA(Launch("faults", stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  auto for_stream = std::async(std::launch::async, [&] { return cudaStreamSynchronize(stream); });
  auto for_event = std::async(std::launch::async, [&] { return cudaEventSynchronize(event); });
  auto for_device = std::async(std::launch::async, [] { return cudaDeviceSynchronize(); });
  ASSERT_TRUE(WaitForWork(stream, "record"));
  Let(stream);
  EXPECT_EQ(for_stream.get(), cudaErrorIllegalAddress);
  EXPECT_EQ(for_event.get(), cudaErrorIllegalAddress);
  EXPECT_EQ(for_device.get(), cudaErrorIllegalAddress);
}

TEST_F(LaunchesTest, TheLastErrorIsTheThreadsOwnAndStaysUntilItIsTaken) {
  EXPECT_CUDA(cudaGetLastError());
  EXPECT_CUDA_ERROR(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA_ERROR(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaPeekAtLastError(), cudaErrorInvalidValue);
  std::async(std::launch::async, [] { EXPECT_CUDA(cudaPeekAtLastError()); }).get();
  // The latest error counts.
  EXPECT_CUDA_ERROR(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaGetLastError());
}

TEST_F(LaunchesTest, ErrorsHaveNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12'345)), "unrecognized error code");
}

TEST_F(LaunchesTest, OccupancyIsTheDevicesAnswer) {
  int blocks = 0;
  std::size_t bytes = 0;
  const void* const kernel = Kernel("add");
  EXPECT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 0));
  EXPECT_EQ(blocks, 3) << "as the fake GPU has it";
  EXPECT_CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 2, 128));
  EXPECT_EQ(bytes, 4096U);
  EXPECT_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 128, 0),
                    cudaErrorInvalidDeviceFunction);
  EXPECT_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 0, 0),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, kernel, 128, 0),
                    cudaErrorInvalidValue);
}

TEST_F(LaunchesTest, FunctionsHaveAttributes) {
  cudaFuncAttributes attributes{};
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, Kernel("add")));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attributes.numRegs, 7);
  EXPECT_CUDA(cudaFuncSetAttribute(Kernel("add"), cudaFuncAttributeMaxDynamicSharedMemorySize, 64));
  EXPECT_CUDA_ERROR(
      cudaFuncSetAttribute(Kernel("add"), cudaFuncAttributeMaxDynamicSharedMemorySize, -1),
      cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaFuncGetAttributes(&attributes, nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_CUDA_ERROR(cudaFuncGetAttributes(nullptr, Kernel("add")), cudaErrorInvalidValue);
}

TEST_F(LaunchesTest, OneKernelRunsOnAllDevices) {
  for (int device = 0; device < kDevices; ++device) {
    ASSERT_CUDA(cudaSetDevice(device));
    ExpectWorks();
  }
}

}  // namespace
}  // namespace cuspan
