// Streams: properties, pending work, and destruction.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

using StreamsTest = LoopbackTest;

// A plausible stale handle, for instance of another process.
const cudaStream_t kNoStream = reinterpret_cast<cudaStream_t>(0x123456);

TEST_F(StreamsTest, SayHowTheyWereMade) {
  unsigned flags = 99;
  int device = 99;
  int priority = 99;
  cudaStream_t plain = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&plain));
  EXPECT_CUDA(cudaStreamGetFlags(plain, &flags));
  EXPECT_EQ(flags, cudaStreamDefault);
  EXPECT_CUDA(cudaStreamGetPriority(plain, &priority));
  EXPECT_EQ(priority, 0);
  ASSERT_CUDA(cudaSetDevice(1));
  cudaStream_t free = NewStream(cudaStreamNonBlocking);
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_CUDA(cudaStreamGetFlags(free, &flags));
  EXPECT_EQ(flags, cudaStreamNonBlocking);
  EXPECT_CUDA(cudaStreamGetDevice(free, &device));
  EXPECT_EQ(device, 1);
  EXPECT_CUDA(cudaStreamGetDevice(plain, &device));
  EXPECT_EQ(device, 0);
}

TEST_F(StreamsTest, HaveNumbersOfTheirOwn) {
  unsigned long long first = 0;
  unsigned long long second = 0;
  unsigned long long again = 0;
  cudaStream_t stream = NewStream();
  EXPECT_CUDA(cudaStreamGetId(stream, &first));
  EXPECT_CUDA(cudaStreamGetId(NewStream(), &second));
  EXPECT_CUDA(cudaStreamGetId(stream, &again));
  EXPECT_NE(first, second);
  EXPECT_EQ(first, again);
}

TEST_F(StreamsTest, PrioritiesAreCutToTheRange) {
  int least = 99;
  int greatest = 99;
  ASSERT_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_LE(greatest, least);
  for (const int wanted : {-1000, greatest, 0, least, 1000}) {
    cudaStream_t stream = nullptr;
    int priority = 99;
    ASSERT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, wanted));
    EXPECT_CUDA(cudaStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, std::clamp(wanted, greatest, least));
  }
}

TEST_F(StreamsTest, WrongArgumentsAreRefused) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA_ERROR(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, 2), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaStreamGetFlags(NewStream(), nullptr), cudaErrorInvalidValue);
}

TEST_F(StreamsTest, QueryTellsWhetherWorkIsPending) {
  cudaStream_t stream = NewStream();
  EXPECT_CUDA(cudaStreamQuery(stream));
  Hold(stream);
  EXPECT_CUDA(cudaStreamQuery(stream));
  ASSERT_CUDA(Launch("nothing", stream));
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorNotReady);
  // cudaErrorNotReady is a result, not an error.
  EXPECT_CUDA(cudaPeekAtLastError());
  Let(stream);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaStreamQuery(stream));
}

TEST_F(StreamsTest, SynchronizeWaitsForAllThatIsPendingInTheStream) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  cudaStream_t after = NewStream();
  Hold(stream);
  for (int i = 0; i < 100; ++i) ASSERT_CUDA(Add(words, 1, 1, stream));
  std::atomic<bool> let = false;
  auto waiting = std::async(std::launch::async, [&] {
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_TRUE(let.load());
  });
  ASSERT_TRUE(gpu().WaitForLog("add " + std::to_string(NumberOf(stream)), 100));
  gpu().LetNext(NumberOf(stream), 50);
  let = true;
  Let(stream);
  waiting.get();
  EXPECT_EQ(ReadWord(words, after), 100U);
}

TEST_F(StreamsTest, DoNotWaitForEachOther) {
  std::uint32_t* const words = NewWords(2);
  cudaStream_t held = NewStream();
  cudaStream_t other = NewStream();
  Hold(held);
  ASSERT_CUDA(Add(words, 1, 1, held));
  ASSERT_CUDA(Add(words + 1, 1, 2, other));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(ReadWord(words + 1, other), 2U);
  EXPECT_EQ(ReadWord(words, other), 0U);
  EXPECT_CUDA_ERROR(cudaStreamQuery(held), cudaErrorNotReady);
}

TEST_F(StreamsTest, DeviceSynchronizeWaitsForAllOfThem) {
  std::uint32_t* const words = NewWords(3);
  const cudaStream_t streams[] = {NewStream(), NewStream(cudaStreamDefault), NewStream()};
  for (cudaStream_t stream : streams) Hold(stream);
  for (int i = 0; i < 3; ++i) ASSERT_CUDA(Add(words + i, 1, 7, streams[i]));
  std::atomic<int> let = 0;
  auto waiting = std::async(std::launch::async, [&] {
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(let.load(), 3);
  });
  for (cudaStream_t stream : streams) {
    ASSERT_TRUE(WaitForWork(stream, "add"));
    ++let;
    Let(stream);
  }
  waiting.get();
  EXPECT_EQ(Read(words, 3), std::vector<std::uint32_t>(3, 7));
}

TEST_F(StreamsTest, WorkOfOtherDevicesIsNotWaitedFor) {
  cudaStream_t held = NewStream();
  Hold(held);
  ASSERT_CUDA(Launch("nothing", held));
  ASSERT_CUDA(cudaSetDevice(1));
  std::uint32_t* const words = NewWords(1);
  ASSERT_CUDA(Add(words, 1, 3, nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{3});
}

TEST_F(StreamsTest, WorkOfADestroyedStreamIsStillDone) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  Hold(stream);
  for (int i = 0; i < 10; ++i) ASSERT_CUDA(Add(words, 1, 1, stream));
  const std::uint32_t five = 5;
  ASSERT_CUDA(cudaMemcpyAsync(words, &five, sizeof five, cudaMemcpyHostToDevice, stream));
  ASSERT_CUDA(Add(words, 1, 1, stream));
  ASSERT_TRUE(gpu().WaitForLog("add " + std::to_string(NumberOf(stream)), 11));
  EXPECT_CUDA(cudaStreamDestroy(stream));
  gpu().Let(NumberOf(stream));
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{6});
}

TEST_F(StreamsTest, HandlesThatAreNoneAreRefused) {
  cudaStream_t destroyed = NewStream();
  ASSERT_CUDA(cudaStreamDestroy(destroyed));
  for (cudaStream_t stream : {destroyed, kNoStream}) {
    std::uint32_t* const words = NewWords(1);
    EXPECT_CUDA_ERROR(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(Add(words, 1, 1, stream), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaMemsetAsync(words, 1, 4, stream), cudaErrorInvalidResourceHandle);
    EXPECT_CUDA_ERROR(cudaEventRecord(NewEvent(), stream), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{0});
  }
}

TEST_F(StreamsTest, DefaultStreamsCanNotBeDestroyed) {
  for (cudaStream_t stream : {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread})
    EXPECT_CUDA_ERROR(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamsTest, KernelsRunInStreamsOfTheCurrentDeviceOnly) {
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA_ERROR(Launch("nothing", stream), cudaErrorInvalidResourceHandle);
}

// Copies follow their pointers, in the order of any stream.
TEST_F(StreamsTest, CopiesMayUseStreamsOfOtherDevices) {
  std::uint32_t* const words = NewWords(1);
  ASSERT_CUDA(cudaSetDevice(1));
  cudaStream_t stream = NewStream();
  Hold(stream);
  std::uint32_t* const others = NewWords(1);
  ASSERT_CUDA(Add(others, 1, 1, stream));
  const std::uint32_t five = 5;
  ASSERT_CUDA(cudaMemcpyAsync(words, &five, sizeof five, cudaMemcpyHostToDevice, stream));
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 1, stream));
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(ReadWord(words, NewStream()), 0U);
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(ReadWord(words, NewStream()), 1U);
}

TEST_F(StreamsTest, ManyComeAndGo) {
  std::uint32_t* const words = NewWords(1);
  for (int i = 0; i < 300; ++i) {
    cudaStream_t stream = NewStream(i % 2 == 0 ? cudaStreamDefault : cudaStreamNonBlocking);
    ASSERT_CUDA(Add(words, 1, 1, stream));
    ASSERT_CUDA(cudaStreamDestroy(stream));
  }
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{300});
}

// Returns the number of requests to the device for the state of a stream, or of all.
std::uint64_t Waits(Session& session) {
  const auto& ops = session.devices().Opened(0)->channel().statistics().ops;
  return ops[StreamSynchronize::kIndex].load() + ops[DeviceSynchronize::kIndex].load() +
         ops[StreamQuery::kIndex].load();
}

TEST_F(StreamsTest, NobodyIsAskedForTheEndOfNothing) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t busy = NewStream();
  for (cudaStream_t stream : {NewStream(), cudaStreamPerThread, cudaStream_t{nullptr}}) {
    ASSERT_CUDA(Add(words, 1, 1, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    const std::uint64_t waits = Waits(session());
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_CUDA(cudaStreamQuery(stream));
    EXPECT_EQ(Waits(session()), waits);
  }
  // All were idle: so is the device.
  const std::uint64_t waits = Waits(session());
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(Waits(session()), waits);
  // Work of one stream is no work of another, except for the legacy stream.
  cudaStream_t idle = NewStream();
  EXPECT_CUDA(cudaStreamSynchronize(idle));
  Hold(busy);
  ASSERT_CUDA(Launch("nothing", busy));
  const std::uint64_t before = Waits(session());
  EXPECT_CUDA(cudaStreamSynchronize(idle));
  EXPECT_EQ(Waits(session()), before);
  Let(busy);
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(Waits(session()), before + 1);
}

TEST_F(StreamsTest, AnIdleDeviceReportsItsLoss) {
  cudaStream_t stream = NewStream();
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaDeviceSynchronize());
  LoseProxy(0);
  EXPECT_CUDA_ERROR(cudaStreamSynchronize(stream), cudaErrorDevicesUnavailable);
  EXPECT_CUDA_ERROR(cudaDeviceSynchronize(), cudaErrorDevicesUnavailable);
}

// A copy to pageable memory returns when its bytes have arrived. At this time, the stream's work is
// done.
TEST_F(StreamsTest, BehindACopyThatWasWaitedForNobodyIsAsked) {
  std::uint32_t* const words = NewWords(1);
  std::uint32_t word = 0;
  for (cudaStream_t stream : {NewStream(), cudaStream_t{nullptr}, cudaStreamPerThread}) {
    ASSERT_CUDA(Add(words, 1, 1, stream));
    ASSERT_CUDA(cudaMemcpyAsync(&word, words, sizeof word, cudaMemcpyDeviceToHost, stream));
    const std::uint64_t waits = Waits(session());
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_CUDA(cudaStreamQuery(stream));
    EXPECT_EQ(Waits(session()), waits);
    ASSERT_CUDA(Add(words, 1, 1, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(Waits(session()), waits + 1);
  }
  EXPECT_EQ(word, 5U);
}

TEST_F(StreamsTest, BehindACopyTheDefaultStreamWaitsForOthers) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  std::uint32_t word = 0;
  ASSERT_CUDA(cudaMemcpyAsync(&word, words, sizeof word, cudaMemcpyDeviceToHost, nullptr));
  ASSERT_CUDA(Add(words, 1, 1, blocking));
  const std::uint64_t waits = Waits(session());
  EXPECT_CUDA(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(Waits(session()), waits + 1);
}

TEST_F(StreamsTest, EventsBeforeACopyAreReachedWithIt) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  std::uint32_t word = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_CUDA(cudaEventRecord(event, stream));
    ASSERT_CUDA(cudaMemcpyAsync(&word, words, sizeof word, cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    ASSERT_CUDA(cudaEventQuery(event));
  }
}

}  // namespace
}  // namespace cuspan
