// Events: records, and waits for them.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

using EventsTest = LoopbackTest;

TEST_F(EventsTest, AreReachedWhenTheStreamHasComeSoFar) {
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(stream);
  ASSERT_CUDA(Launch("nothing", stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_CUDA(cudaPeekAtLastError());
  // Work after the record does not matter.
  ASSERT_CUDA(Launch("nothing", stream));
  ASSERT_TRUE(gpu().WaitForLog("nothing " + std::to_string(NumberOf(stream)), 3));
  Let(stream);
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_CUDA(cudaEventQuery(event));
}

TEST_F(EventsTest, NeverRecordedAreReached) {
  cudaEvent_t event = NewEvent();
  EXPECT_CUDA(cudaEventQuery(event));
  EXPECT_CUDA(cudaEventSynchronize(event));
  cudaStream_t stream = NewStream();
  EXPECT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

TEST_F(EventsTest, SynchronizeWaits) {
  for (const unsigned flags : {unsigned{cudaEventDefault}, unsigned{cudaEventBlockingSync},
                               unsigned{cudaEventDisableTiming}}) {
    std::uint32_t* const words = NewWords(1);
    cudaStream_t stream = NewStream();
    cudaEvent_t event = NewEvent(flags);
    Hold(stream);
    ASSERT_CUDA(Add(words, 1, 3, stream));
    ASSERT_CUDA(cudaEventRecord(event, stream));
    std::atomic<bool> let = false;
    auto waiting = std::async(std::launch::async, [&] {
      EXPECT_CUDA(cudaEventSynchronize(event));
      EXPECT_TRUE(let.load());
    });
    ASSERT_TRUE(WaitForWork(stream, "record"));
    let = true;
    Let(stream);
    waiting.get();
    EXPECT_EQ(ReadWord(words, NewStream()), 3U);
  }
}

TEST_F(EventsTest, TheLastRecordCounts) {
  cudaStream_t held = NewStream();
  cudaStream_t other = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(held);
  ASSERT_CUDA(Launch("nothing", held));
  ASSERT_CUDA(cudaEventRecord(event, held));
  ASSERT_CUDA(cudaEventRecord(event, other));
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_CUDA(cudaEventQuery(event));
  ASSERT_CUDA(cudaEventRecord(event, held));
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorNotReady);
}

TEST_F(EventsTest, AStreamWaitsForAnother) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t event = NewEvent(cudaEventDisableTiming);
  Hold(first);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, first));
  ASSERT_CUDA(cudaEventRecord(event, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, event, 0));
  ASSERT_CUDA(Add(words, 1, 1, second));
  EXPECT_CUDA_ERROR(cudaStreamQuery(second), cudaErrorNotReady);
  ASSERT_TRUE(WaitForWork(first, "record"));
  Let(first);
  EXPECT_CUDA(cudaStreamSynchronize(second));
  EXPECT_EQ(ReadWord(words, second), 0x01010102U);
}

// A later record does not change waits issued earlier.
TEST_F(EventsTest, AStreamWaitsForTheRecordThatWasThere) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaStream_t third = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(first);
  Hold(third);
  ASSERT_CUDA(Add(words, 1, 1, first));
  ASSERT_CUDA(cudaEventRecord(event, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, event, 0));
  ASSERT_CUDA(Launch("nothing", third));
  ASSERT_CUDA(cudaEventRecord(event, third));
  EXPECT_CUDA_ERROR(cudaStreamQuery(second), cudaErrorNotReady);
  Let(first);
  EXPECT_CUDA(cudaStreamSynchronize(second));
  EXPECT_EQ(ReadWord(words, second), 1U);
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorNotReady);
}

TEST_F(EventsTest, AStreamWaitsForAnotherDevice) {
  cudaStream_t first = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(first);
  ASSERT_CUDA(Launch("nothing", first));
  ASSERT_CUDA(cudaEventRecord(event, first));
  ASSERT_CUDA(cudaSetDevice(1));
  std::uint32_t* const words = NewWords(1);
  cudaStream_t second = NewStream();
  ASSERT_CUDA(cudaStreamWaitEvent(second, event, 0));
  ASSERT_CUDA(Add(words, 1, 4, second));
  EXPECT_CUDA_ERROR(cudaStreamQuery(second), cudaErrorNotReady);
  EXPECT_EQ(ReadWord(words, NewStream()), 0U);
  Let(first);
  EXPECT_CUDA(cudaStreamSynchronize(second));
  EXPECT_EQ(ReadWord(words, NewStream()), 4U);
}

TEST_F(EventsTest, DevicesTakeTurns) {
  constexpr int kTurns = 50;
  cudaStream_t streams[2];
  cudaEvent_t events[2];
  std::uint32_t* words[2];
  for (int device = 0; device < 2; ++device) {
    ASSERT_CUDA(cudaSetDevice(device));
    streams[device] = NewStream();
    events[device] = NewEvent(cudaEventDisableTiming);
    words[device] = NewWords(1);
  }
  // Each device adds to the value received from the other.
  for (int turn = 0; turn < kTurns; ++turn) {
    const int device = turn % 2;
    const int other = 1 - device;
    ASSERT_CUDA(cudaSetDevice(device));
    if (turn > 0) {
      ASSERT_CUDA(cudaStreamWaitEvent(streams[device], events[other], 0));
    }
    ASSERT_CUDA(
        cudaMemcpyPeerAsync(words[device], device, words[other], other, 4, streams[device]));
    ASSERT_CUDA(Add(words[device], 1, 1, streams[device]));
    ASSERT_CUDA(cudaEventRecord(events[device], streams[device]));
  }
  EXPECT_CUDA(cudaEventSynchronize(events[1]));
  EXPECT_EQ(ReadWord(words[1], streams[1]), static_cast<std::uint32_t>(kTurns));
}

TEST_F(EventsTest, AreRecordedInStreamsOfTheirDeviceOnly) {
  cudaEvent_t event = NewEvent();
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA_ERROR(cudaEventRecord(event, NewStream()), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
}

// On the fake GPU, 2.5 ms pass between two records with times.
TEST_F(EventsTest, ElapsedTimeIsThatBetweenTwoRecords) {
  cudaStream_t stream = NewStream();
  cudaEvent_t start = NewEvent();
  cudaEvent_t middle = NewEvent();
  cudaEvent_t end = NewEvent();
  const auto elapsed = [](cudaEvent_t from, cudaEvent_t to) {
    float milliseconds = -1;
    EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
    return milliseconds;
  };
  for (cudaEvent_t event : {start, middle, end}) ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaEventSynchronize(end));
  EXPECT_EQ(elapsed(start, middle), 2.5F);
  EXPECT_EQ(elapsed(start, end), 5);
  EXPECT_EQ(elapsed(end, start), -5);
  EXPECT_EQ(elapsed(end, end), 0);
  ASSERT_CUDA(cudaEventRecord(start, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(elapsed(middle, start), 5) << "the last record counts";
}

TEST_F(EventsTest, ElapsedTimeNeedsTwoRecordsThatWereReached) {
  cudaStream_t stream = NewStream();
  cudaEvent_t start = NewEvent();
  cudaEvent_t end = NewEvent();
  cudaEvent_t untimed = NewEvent(cudaEventDisableTiming);
  float milliseconds = -1;
  EXPECT_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start, end),
                    cudaErrorInvalidResourceHandle);
  ASSERT_CUDA(cudaEventRecord(start, stream));
  ASSERT_CUDA(cudaEventRecord(untimed, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start, end),
                    cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start, untimed),
                    cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_ERROR(cudaEventElapsedTime(nullptr, start, start), cudaErrorInvalidValue);
  Hold(stream);
  ASSERT_CUDA(cudaEventRecord(end, stream));
  EXPECT_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
}

TEST_F(EventsTest, OutliveTheirStream) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  cudaStream_t other = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(stream);
  ASSERT_CUDA(Add(words, 1, 1, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_TRUE(WaitForWork(stream, "record"));
  ASSERT_CUDA(cudaStreamDestroy(stream));
  ASSERT_CUDA(cudaStreamWaitEvent(other, event, 0));
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorNotReady);
  gpu().Let(NumberOf(stream));
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_EQ(ReadWord(words, other), 1U);
}

TEST_F(EventsTest, DestroyedBeforeTheyAreReachedStillLetOthersWait) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t event = NewEvent();
  Hold(first);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, first));
  ASSERT_CUDA(cudaEventRecord(event, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, event, 0));
  ASSERT_CUDA(cudaEventDestroy(event));
  ASSERT_CUDA(Add(words, 1, 1, second));
  EXPECT_CUDA_ERROR(cudaStreamQuery(second), cudaErrorNotReady);
  Let(first);
  EXPECT_EQ(ReadWord(words, second), 0x01010102U);
}

TEST_F(EventsTest, HandlesThatAreNoneAreRefused) {
  cudaEvent_t destroyed = NewEvent();
  ASSERT_CUDA(cudaEventDestroy(destroyed));
  cudaStream_t stream = NewStream();
  for (cudaEvent_t event : {destroyed, reinterpret_cast<cudaEvent_t>(0x123456)}) {
    EXPECT_CUDA_ERROR(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaStreamWaitEvent(stream, event, 0), cudaErrorInvalidResourceHandle);
  }
}

TEST_F(EventsTest, WrongFlagsAreRefused) {
  cudaEvent_t event = nullptr;
  EXPECT_CUDA_ERROR(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaEventCreateWithFlags(&event, 0x80), cudaErrorInvalidValue);
  // Interprocess events must disable timing.
  EXPECT_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaEventRecordWithFlags(NewEvent(), NewStream(), 0x80), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan
