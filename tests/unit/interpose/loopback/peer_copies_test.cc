// Copies between two devices without access to each other's memory.
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class PeerCopiesTest : public LoopbackTest {
 protected:
  // Makes `device` current, and allocates there.
  static std::uint32_t* NewWordsOn(int device, std::size_t count) {
    EXPECT_CUDA(cudaSetDevice(device));
    return NewWords(count);
  }
  static std::uint32_t* NewCount(int device, std::size_t count) {
    std::uint32_t* const words = NewWordsOn(device, count);
    const std::vector<std::uint32_t> counted = Count(count);
    EXPECT_CUDA(cudaMemcpy(words, counted.data(), 4 * count, cudaMemcpyHostToDevice));
    return words;
  }
};

TEST_F(PeerCopiesTest, BytesArrive) {
  for (const std::size_t count : {1UL, 1023UL, 1024UL, 4097UL, 100'000UL}) {
    SCOPED_TRACE(count);
    std::uint32_t* const there = NewWordsOn(1, count);
    std::uint32_t* const here = NewCount(0, count);
    ASSERT_CUDA(cudaMemcpyPeer(there, 1, here, 0, 4 * count));
    EXPECT_EQ(Read(there, count), Count(count));
    ASSERT_CUDA(cudaMemset(here, 0, 4 * count));
    ASSERT_CUDA(cudaMemcpy(here, there, 4 * count, cudaMemcpyDeviceToDevice));
    EXPECT_EQ(Read(here, count), Count(count));
  }
}

TEST_F(PeerCopiesTest, DefaultKindFindsBothDevices) {
  std::uint32_t* const there = NewWordsOn(1, 5000);
  std::uint32_t* const here = NewCount(0, 5000);
  ASSERT_CUDA(cudaMemcpy(there, here, 20'000, cudaMemcpyDefault));
  EXPECT_EQ(Read(there, 5000), Count(5000));
}

TEST_F(PeerCopiesTest, AreInTheOrderOfTheirStream) {
  std::uint32_t* const there = NewWordsOn(1, 1000);
  std::uint32_t* const here = NewCount(0, 1000);
  cudaStream_t stream = NewStream();
  Hold(stream);
  ASSERT_CUDA(Add(here, 1000, 7, stream));
  ASSERT_CUDA(cudaMemcpyPeerAsync(there, 1, here, 0, 4000, stream));
  ASSERT_CUDA(Add(here, 1000, 100, stream));
  ASSERT_CUDA(cudaSetDevice(1));
  cudaStream_t other = NewStream();
  EXPECT_EQ(ReadWord(there, other), 0U);
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorNotReady);
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  std::vector<std::uint32_t> expected = Count(1000);
  for (std::uint32_t& word : expected) word += 7;
  EXPECT_EQ(Read(there, 1000), expected);
}

TEST_F(PeerCopiesTest, AreInTheOrderOfAStreamOfTheDestination) {
  std::uint32_t* const here = NewCount(0, 1000);
  std::uint32_t* const there = NewWordsOn(1, 1000);
  cudaStream_t stream = NewStream();
  Hold(stream);
  ASSERT_CUDA(cudaMemsetAsync(there, 1, 4000, stream));
  ASSERT_CUDA(cudaMemcpyPeerAsync(there, 1, here, 0, 4000, stream));
  ASSERT_CUDA(Add(there, 1000, 1, stream));
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  std::vector<std::uint32_t> expected = Count(1000);
  for (std::uint32_t& word : expected) word += 1;
  EXPECT_EQ(Read(there, 1000), expected);
}

TEST_F(PeerCopiesTest, ManyAreUnderWay) {
  constexpr int kCopies = 100;
  std::uint32_t* const here = NewCount(0, 1000 * kCopies);
  std::uint32_t* const there = NewWordsOn(1, 1000 * kCopies);
  ASSERT_CUDA(cudaSetDevice(0));
  const cudaStream_t streams[] = {NewStream(), NewStream(), NewStream()};
  for (int i = 0; i < kCopies; ++i)
    EXPECT_CUDA(cudaMemcpyPeerAsync(there + 1000 * i, 1, here + 1000 * i, 0, 4000, streams[i % 3]));
  for (cudaStream_t stream : streams) ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Read(there, 1000 * kCopies), Count(1000 * kCopies));
}

TEST_F(PeerCopiesTest, BothWaysAtOnce) {
  std::uint32_t* const here = NewCount(0, 50'000);
  std::uint32_t* const here_back = NewWords(50'000);
  cudaStream_t first = NewStream();
  std::uint32_t* const there = NewWordsOn(1, 50'000);
  std::uint32_t* const there_count = NewCount(1, 50'000);
  cudaStream_t second = NewStream();
  ASSERT_CUDA(cudaMemcpyPeerAsync(there, 1, here, 0, 200'000, first));
  ASSERT_CUDA(cudaMemcpyPeerAsync(here_back, 0, there_count, 1, 200'000, second));
  ASSERT_CUDA(cudaStreamSynchronize(first));
  ASSERT_CUDA(cudaStreamSynchronize(second));
  EXPECT_EQ(Read(there, 50'000), Count(50'000));
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(Read(here_back, 50'000), Count(50'000));
}

TEST_F(PeerCopiesTest, BoxesArrive) {
  std::uint32_t* const there = NewWordsOn(1, 32 * 20);
  std::uint32_t* const here = NewCount(0, 16 * 20);
  cudaMemcpy3DPeerParms box{};
  box.srcPtr = {here, 64, 64, 20};
  box.srcDevice = 0;
  box.dstPtr = {there, 128, 128, 20};
  box.dstPos = {8, 2, 0};
  box.dstDevice = 1;
  box.extent = {40, 10, 1};
  ASSERT_CUDA(cudaMemcpy3DPeer(&box));
  const std::vector<std::uint32_t> after = Read(there, 32 * 20);
  for (std::uint32_t y = 0; y < 20; ++y) {
    for (std::uint32_t x = 0; x < 32; ++x) {
      const bool inside = y >= 2 && y < 12 && x >= 2 && x < 12;
      ASSERT_EQ(after[32 * y + x], inside ? 16 * (y - 2) + x - 2 : 0U) << x << ' ' << y;
    }
  }
}

TEST_F(PeerCopiesTest, RowsArrive) {
  std::uint32_t* const there = NewWordsOn(1, 32 * 20);
  std::uint32_t* const here = NewCount(0, 16 * 20);
  ASSERT_CUDA(cudaMemcpy2D(there, 128, here, 64, 64, 20, cudaMemcpyDeviceToDevice));
  const std::vector<std::uint32_t> after = Read(there, 32 * 20);
  for (std::uint32_t i = 0; i < 32 * 20; ++i)
    ASSERT_EQ(after[i], i % 32 < 16 ? i / 32 * 16 + i % 32 : 0U) << i;
}

TEST_F(PeerCopiesTest, WrongDevicesAndExtentsAreRefused) {
  std::uint32_t* const there = NewWordsOn(1, 16);
  std::uint32_t* const here = NewCount(0, 16);
  EXPECT_CUDA_ERROR(cudaMemcpyPeer(there, 7, here, 0, 64), cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaMemcpyPeer(there, 1, here, -1, 64), cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaMemcpyPeer(there, 0, here, 0, 64), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpyPeer(there, 1, here, 0, 65), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpyPeerAsync(there + 1, 1, here, 0, 64, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpyPeer(there, 1, here, 0, 0));
  EXPECT_EQ(Read(there, 16), std::vector<std::uint32_t>(16));
}

TEST_F(PeerCopiesTest, WithinOneDeviceTheyAreCopies) {
  std::uint32_t* const from = NewCount(0, 1000);
  std::uint32_t* const to = NewWords(1000);
  ASSERT_CUDA(cudaMemcpyPeer(to, 0, from, 0, 4000));
  EXPECT_EQ(Read(to, 1000), Count(1000));
}

TEST_F(PeerCopiesTest, KernelsDoNotReachOtherNodes) {
  int can = 1;
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 0);
  EXPECT_CUDA_ERROR(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_CUDA_ERROR(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_CUDA_ERROR(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_CUDA_ERROR(cudaDeviceCanAccessPeer(&can, 0, 7), cudaErrorInvalidDevice);
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 1));
  cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
  EXPECT_CUDA_ERROR(cudaMemPoolSetAccess(pool, &access, 1), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaMemPoolGetAccess(&access.flags, pool, &access.location));
  EXPECT_EQ(access.flags, cudaMemAccessFlagsProtNone);
  int value = 1;
  EXPECT_CUDA(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1));
  EXPECT_EQ(value, 0);
}

TEST_F(PeerCopiesTest, ADeviceThatWasResetCopiesAgain) {
  for (int round = 0; round < 3; ++round) {
    std::uint32_t* const there = NewWordsOn(1, 5000);
    std::uint32_t* const here = NewCount(0, 5000);
    ASSERT_CUDA(cudaMemcpyPeer(there, 1, here, 0, 20'000));
    EXPECT_EQ(Read(there, 5000), Count(5000));
    ASSERT_CUDA(cudaSetDevice(round % kDevices));
    ASSERT_CUDA(cudaDeviceReset());
  }
}

// A wait for a copy with a lost peer must end.
TEST_F(PeerCopiesTest, ACopyOfALostDeviceEnds) {
  std::uint32_t* const here = NewCount(0, 50'000);
  cudaStream_t source = NewStream();
  std::uint32_t* const there = NewWordsOn(1, 50'000);
  cudaStream_t destination = NewStream();
  ASSERT_CUDA(cudaSetDevice(0));
  Hold(source);
  ASSERT_CUDA(Launch("nothing", source));
  cudaEvent_t event = NewEvent();
  ASSERT_CUDA(cudaEventRecord(event, source));
  ASSERT_CUDA(cudaStreamWaitEvent(destination, event, 0));
  ASSERT_CUDA(cudaMemcpyPeerAsync(there, 1, here, 0, 200'000, destination));
  LoseProxy(0);
  EXPECT_NE(cudaStreamSynchronize(source), cudaSuccess);
  static_cast<void>(cudaStreamSynchronize(destination));
}

}  // namespace
}  // namespace cuspan
