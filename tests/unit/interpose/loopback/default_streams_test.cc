// The legacy default stream, ordered with the blocking streams of its device, and the default
// streams per thread.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

// nvcc's --default-stream per-thread replaces names by those with _ptsz and _ptds.
extern "C" {
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaMemsetAsync_ptsz(void* memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream);
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream);
}

namespace cuspan {
namespace {

using DefaultStreamsTest = LoopbackTest;

TEST_F(DefaultStreamsTest, BlockingStreamsWaitForTheLegacyStream) {
  std::uint32_t* const words = NewWords(3);
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  cudaStream_t free = NewStream(cudaStreamNonBlocking);
  Hold(nullptr);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, nullptr));
  ASSERT_CUDA(Add(words, 1, 1, blocking));
  ASSERT_CUDA(Add(words + 1, 1, 2, free));
  EXPECT_CUDA(cudaStreamSynchronize(free));
  EXPECT_EQ(ReadWord(words + 1, free), 2U);
  EXPECT_EQ(ReadWord(words, free), 0U);
  EXPECT_CUDA_ERROR(cudaStreamQuery(blocking), cudaErrorNotReady);
  EXPECT_CUDA_ERROR(cudaStreamQuery(nullptr), cudaErrorNotReady);
  Let(nullptr);
  EXPECT_CUDA(cudaStreamSynchronize(blocking));
  EXPECT_EQ(ReadWord(words, free), 0x01010102U);
}

TEST_F(DefaultStreamsTest, TheLegacyStreamWaitsForBlockingStreams) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  cudaStream_t free = NewStream(cudaStreamNonBlocking);
  Hold(blocking);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, blocking));
  ASSERT_CUDA(Add(words, 1, 1, nullptr));
  EXPECT_CUDA_ERROR(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_CUDA_ERROR(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  EXPECT_EQ(ReadWord(words, free), 0U);
  Let(blocking);
  EXPECT_CUDA(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(ReadWord(words, free), 0x01010102U);
}

TEST_F(DefaultStreamsTest, TheLegacyStreamDoesNotWaitForNonBlockingStreams) {
  cudaStream_t free = NewStream(cudaStreamNonBlocking);
  std::uint32_t* const words = NewWords(1);
  Hold(free);
  ASSERT_CUDA(Launch("nothing", free));
  ASSERT_CUDA(Add(words, 1, 2, nullptr));
  std::uint32_t word = 0;
  EXPECT_CUDA(cudaMemcpy(&word, words, sizeof word, cudaMemcpyDeviceToHost));
  EXPECT_EQ(word, 2U);
  EXPECT_CUDA(cudaStreamQuery(nullptr));
  EXPECT_CUDA_ERROR(cudaStreamQuery(free), cudaErrorNotReady);
}

TEST_F(DefaultStreamsTest, BlockingStreamsDoNotWaitForEachOther) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t first = NewStream(cudaStreamDefault);
  cudaStream_t second = NewStream(cudaStreamDefault);
  Hold(first);
  ASSERT_CUDA(Launch("nothing", first));
  ASSERT_CUDA(Add(words, 1, 2, second));
  EXPECT_CUDA(cudaStreamSynchronize(second));
  EXPECT_EQ(ReadWord(words, second), 2U);
}

TEST_F(DefaultStreamsTest, EachDeviceHasALegacyStream) {
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  Hold(blocking);
  ASSERT_CUDA(Launch("nothing", blocking));
  EXPECT_CUDA_ERROR(cudaStreamQuery(nullptr), cudaErrorNotReady);
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(cudaStreamQuery(nullptr));
  EXPECT_CUDA(cudaStreamSynchronize(nullptr));
}

TEST_F(DefaultStreamsTest, SynchronousCopiesComeBehindBlockingStreams) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t blocking = NewStream(cudaStreamDefault);
  Hold(blocking);
  ASSERT_CUDA(Add(words, 1, 6, blocking));
  std::atomic<bool> let = false;
  auto waiting = std::async(std::launch::async, [&] {
    std::uint32_t word = 0;
    EXPECT_CUDA(cudaMemcpy(&word, words, sizeof word, cudaMemcpyDeviceToHost));
    EXPECT_TRUE(let.load());
    return word;
  });
  ASSERT_TRUE(WaitForWork(blocking, "add"));
  let = true;
  Let(blocking);
  EXPECT_EQ(waiting.get(), 6U);
}

TEST_F(DefaultStreamsTest, EachThreadHasItsOwn) {
  std::uint32_t* const words = NewWords(2);
  Hold(cudaStreamPerThread);
  ASSERT_CUDA(Add(words, 1, 1, cudaStreamPerThread));
  std::async(std::launch::async, [&] {
    EXPECT_CUDA(Add(words + 1, 1, 2, cudaStreamPerThread));
    EXPECT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  }).get();
  cudaStream_t free = NewStream();
  EXPECT_EQ(ReadWord(words, free), 0U);
  EXPECT_EQ(ReadWord(words + 1, free), 2U);
  EXPECT_CUDA_ERROR(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  Let(cudaStreamPerThread);
  EXPECT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(ReadWord(words, free), 1U);
}

TEST_F(DefaultStreamsTest, AThreadsOwnIsABlockingStream) {
  std::uint32_t* const words = NewWords(1);
  unsigned flags = 99;
  EXPECT_CUDA(cudaStreamGetFlags(cudaStreamPerThread, &flags));
  EXPECT_EQ(flags, cudaStreamDefault);
  Hold(cudaStreamPerThread);
  ASSERT_CUDA(cudaMemsetAsync(words, 1, 4, cudaStreamPerThread));
  ASSERT_CUDA(Add(words, 1, 1, cudaStreamLegacy));
  EXPECT_CUDA_ERROR(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  Let(cudaStreamPerThread);
  EXPECT_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  EXPECT_EQ(ReadWord(words, NewStream()), 0x01010102U);
}

TEST_F(DefaultStreamsTest, FunctionsOfThePerThreadKindUseTheThreadsOwn) {
  std::uint32_t* const words = NewWords(2);
  cudaEvent_t event = NewEvent();
  Hold(cudaStreamPerThread);
  const std::uint32_t five = 5;
  ASSERT_CUDA(cudaMemcpyAsync_ptsz(words, &five, 4, cudaMemcpyHostToDevice, nullptr));
  ASSERT_CUDA(cudaMemsetAsync_ptsz(words + 1, 1, 4, nullptr));
  ASSERT_CUDA(cudaEventRecord_ptsz(event, nullptr));
  EXPECT_CUDA_ERROR(cudaStreamQuery_ptsz(nullptr), cudaErrorNotReady);
  EXPECT_CUDA_ERROR(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_TRUE(WaitForWork(cudaStreamPerThread, "set"));
  EXPECT_TRUE(WaitForWork(cudaStreamPerThread, "record"));
  Let(cudaStreamPerThread);
  EXPECT_CUDA(cudaStreamSynchronize_ptsz(nullptr));
  EXPECT_CUDA(cudaEventQuery(event));
  std::uint32_t two[2] = {};
  EXPECT_CUDA(cudaMemcpy_ptds(two, words, sizeof two, cudaMemcpyDeviceToHost));
  EXPECT_EQ(two[0], 5U);
  EXPECT_EQ(two[1], 0x01010101U);
}

// If named by cudaStreamLegacy, they use the legacy stream.
TEST_F(DefaultStreamsTest, FunctionsOfThePerThreadKindTakeTheLegacyStreamByName) {
  std::uint32_t* const words = NewWords(1);
  Hold(cudaStreamLegacy);
  ASSERT_CUDA(cudaMemsetAsync_ptsz(words, 1, 4, cudaStreamLegacy));
  EXPECT_TRUE(WaitForWork(cudaStreamLegacy, "set"));
  EXPECT_CUDA_ERROR(cudaStreamQuery_ptsz(cudaStreamLegacy), cudaErrorNotReady);
  EXPECT_CUDA(cudaStreamQuery(NewStream()));
}

// A thread's default streams have the same handle on all devices.
TEST_F(DefaultStreamsTest, AThreadHasOneOnEachDevice) {
  Hold(cudaStreamPerThread);
  ASSERT_CUDA(Launch("nothing", cudaStreamPerThread));
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(Launch("nothing", cudaStreamPerThread));
  EXPECT_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_CUDA_ERROR(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
}

TEST_F(DefaultStreamsTest, WorkOfAThreadThatHasEndedIsStillDone) {
  std::uint32_t* const words = NewWords(1);
  std::async(std::launch::async, [&] {
    for (int i = 0; i < 100; ++i) EXPECT_CUDA(Add(words, 1, 1, cudaStreamPerThread));
  }).get();
  EXPECT_EQ(Read(words, 1), std::vector<std::uint32_t>{100});
}

}  // namespace
}  // namespace cuspan
