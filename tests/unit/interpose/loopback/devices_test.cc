// Devices: selection, properties, reset and loss.
#include <gmock/gmock.h>

#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class DevicesTest : public LoopbackTest {
 protected:
  void ExpectWorks() {
    std::uint32_t* const words = NewWords(10);
    EXPECT_CUDA(Add(words, 10, 3, nullptr));
    EXPECT_EQ(Read(words, 10), std::vector<std::uint32_t>(10, 3));
  }
  static int Current() {
    int device = -1;
    EXPECT_CUDA(cudaGetDevice(&device));
    return device;
  }
};

TEST_F(DevicesTest, EachThreadHasACurrentOne) {
  int count = 0;
  EXPECT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, kDevices);
  ASSERT_CUDA(cudaSetDevice(1));
  std::async(std::launch::async, [] {
    EXPECT_EQ(Current(), 0);
    EXPECT_CUDA(cudaSetDevice(0));
  }).get();
  EXPECT_EQ(Current(), 1);
  for (const int none : {-1, kDevices, 1000})
    EXPECT_CUDA_ERROR(cudaSetDevice(none), cudaErrorInvalidDevice);
  EXPECT_EQ(Current(), 1);
  EXPECT_CUDA_ERROR(cudaGetDevice(nullptr), cudaErrorInvalidValue);
}

TEST_F(DevicesTest, HaveProperties) {
  cudaDeviceProp properties{};
  ASSERT_CUDA(cudaGetDeviceProperties(&properties, 1));
  EXPECT_STREQ(properties.name, "a fake GPU");
  EXPECT_EQ(properties.totalGlobalMem, std::size_t{1} << 30);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.maxThreadsPerBlock, 1024);
  EXPECT_EQ(properties.uuid.bytes[0], 2);
  EXPECT_CUDA_ERROR(cudaGetDeviceProperties(&properties, kDevices), cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaGetDeviceProperties(nullptr, 0), cudaErrorInvalidValue);
}

TEST_F(DevicesTest, HaveAttributes) {
  int value = 0;
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(value, 4);
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
  EXPECT_EQ(value, 48 << 10);
  EXPECT_CUDA_ERROR(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, -1),
                    cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(255), 0),
                    cudaErrorInvalidValue);
}

TEST_F(DevicesTest, AreFoundByTheirBus) {
  char text[16] = {};
  int device = -1;
  ASSERT_CUDA(cudaDeviceGetPCIBusId(text, sizeof text, 0));
  EXPECT_STREQ(text, "0000:01:00.0");
  EXPECT_CUDA(cudaDeviceGetByPCIBusId(&device, text));
  EXPECT_EQ(device, 0);
  EXPECT_CUDA_ERROR(cudaDeviceGetPCIBusId(text, 5, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaDeviceGetByPCIBusId(&device, "nowhere"), cudaErrorInvalidValue);
}

TEST_F(DevicesTest, TheLikestIsChosen) {
  cudaDeviceProp wanted{};
  int device = -1;
  wanted.major = 9;
  EXPECT_CUDA(cudaChooseDevice(&device, &wanted));
  EXPECT_GE(device, 0);
  EXPECT_LT(device, kDevices);
  EXPECT_CUDA_ERROR(cudaChooseDevice(nullptr, &wanted), cudaErrorInvalidValue);
}

TEST_F(DevicesTest, LimitsAreTheDevices) {
  std::size_t value = 0;
  EXPECT_CUDA(cudaDeviceGetLimit(&value, cudaLimitStackSize));
  EXPECT_EQ(value, 1024U);
  EXPECT_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  EXPECT_CUDA_ERROR(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1), cudaErrorUnsupportedLimit);
  EXPECT_CUDA_ERROR(cudaDeviceGetLimit(nullptr, cudaLimitStackSize), cudaErrorInvalidValue);
}

TEST_F(DevicesTest, VersionsAreTold) {
  int version = 0;
  EXPECT_CUDA(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version / 1000, CUDART_VERSION / 1000);
  EXPECT_CUDA(cudaDriverGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
}

TEST_F(DevicesTest, FlagsAreKept) {
  unsigned flags = 0;
  EXPECT_CUDA(cudaSetDeviceFlags(cudaDeviceScheduleYield));
  EXPECT_CUDA(cudaGetDeviceFlags(&flags));
  EXPECT_EQ(flags & cudaDeviceScheduleMask, unsigned{cudaDeviceScheduleYield});
  EXPECT_CUDA_ERROR(cudaSetDeviceFlags(0x10'0000), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaSetDeviceFlags(cudaDeviceScheduleAuto));
}

TEST_F(DevicesTest, AResetEndsAllThatTheDeviceHad) {
  std::uint32_t* const words = NewWords(10);
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaDeviceReset());
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_CUDA_ERROR(cudaFree(words), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemset(words, 0, 4), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  ExpectWorks();
}

TEST_F(DevicesTest, AResetIsOfTheCurrentOneOnly) {
  ASSERT_CUDA(cudaSetDevice(1));
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(Add(words, 1, 5, stream));
  ASSERT_CUDA(cudaSetDevice(0));
  ExpectWorks();
  ASSERT_CUDA(cudaDeviceReset());
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(Read(words, 1).front(), 5U);
}

TEST_F(DevicesTest, AResetOfOneThatWasNotUsedDoesNothing) {
  EXPECT_CUDA(cudaDeviceReset());
  EXPECT_CUDA(cudaDeviceReset());
  ExpectWorks();
}

TEST_F(DevicesTest, ManyResets) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_CUDA(cudaSetDevice(i % kDevices));
    ExpectWorks();
    ASSERT_CUDA(cudaDeviceReset());
  }
}

TEST_F(DevicesTest, ThreadsUseThemAtOnce) {
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [this, thread] {
      EXPECT_CUDA(cudaSetDevice(thread % kDevices));
      cudaStream_t stream = NewStream();
      const std::vector<std::uint32_t> counted = Count(5000);
      std::vector<std::uint32_t> here(5000);
      for (std::uint32_t i = 1; i <= 20; ++i) {
        std::uint32_t* words = nullptr;
        EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&words), 20'000));
        EXPECT_CUDA(cudaMemcpyAsync(words, counted.data(), 20'000, cudaMemcpyHostToDevice, stream));
        EXPECT_CUDA(cudaStreamSynchronize(stream));
        EXPECT_CUDA(cudaMemcpyAsync(here.data(), words, 20'000, cudaMemcpyDeviceToHost, stream));
        EXPECT_CUDA(cudaStreamSynchronize(stream));
        EXPECT_EQ(here, counted);
        EXPECT_CUDA(cudaFree(words));
      }
      EXPECT_CUDA(cudaStreamDestroy(stream));
    }));
  }
  for (auto& thread : threads) thread.get();
}

TEST_F(DevicesTest, ALostOneSaysSoUntilItIsReset) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaSetDevice(1));
  ExpectWorks();
  ASSERT_CUDA(cudaSetDevice(0));
  ASSERT_CUDA(Launch("nothing", stream));
  LoseProxy(0);
  const cudaError_t lost = cudaDeviceSynchronize();
  EXPECT_NE(lost, cudaSuccess);
  EXPECT_EQ(cudaMemset(words, 0, 4), lost);
  EXPECT_EQ(cudaStreamSynchronize(stream), lost);
  EXPECT_EQ(Launch("nothing", stream), lost);
  EXPECT_EQ(cudaGetLastError(), lost);
  const char* const text = cudaGetErrorString(lost);
  EXPECT_THAT(text,
              AllOf(StartsWith("CUDA-capable device(s) is/are busy or unavailable; device 0 ("),
                    HasSubstr(") is lost: the test ended it")));
  const char* of_driver = nullptr;
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_DEVICE_UNAVAILABLE, &of_driver), CUDA_SUCCESS);
  EXPECT_STREQ(of_driver, text);
  // The other device still works.
  ASSERT_CUDA(cudaSetDevice(1));
  ExpectWorks();
  ASSERT_CUDA(cudaSetDevice(0));
  ASSERT_CUDA(cudaDeviceReset());
  ExpectWorks();
  EXPECT_STREQ(cudaGetErrorString(lost), "CUDA-capable device(s) is/are busy or unavailable");
  EXPECT_THAT(text, HasSubstr("device 0"));  // Strings returned earlier stay valid.
}

// Calls without a request to the device fail too.
TEST_F(DevicesTest, ALostOneIsLostFromTheFirstErrorOn) {
  static_cast<void>(NewWords(1));
  LoseProxy(0);
  const cudaError_t lost = cudaDeviceSynchronize();
  EXPECT_NE(lost, cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), lost);
}

TEST_F(DevicesTest, WhoWaitsForALostOneIsTold) {
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(stream);
  ASSERT_CUDA(Launch("nothing", stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaSetDevice(1));
  cudaStream_t other = NewStream();
  ASSERT_CUDA(cudaStreamWaitEvent(other, event, 0));
  ASSERT_CUDA(cudaSetDevice(0));
  auto for_stream = std::async(std::launch::async, [&] { return cudaStreamSynchronize(stream); });
  auto for_event = std::async(std::launch::async, [&] { return cudaEventSynchronize(event); });
  ASSERT_TRUE(WaitForWork(stream, "record"));
  LoseProxy(0);
  EXPECT_NE(for_stream.get(), cudaSuccess);
  EXPECT_NE(for_event.get(), cudaSuccess);
  // A stream of another device, waiting for the event, continues.
  EXPECT_CUDA(cudaStreamSynchronize(other));
}

}  // namespace
}  // namespace cuspan
