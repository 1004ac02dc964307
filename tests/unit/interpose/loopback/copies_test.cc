// Copies of contiguous bytes between the program's memory and devices, through the whole client.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// Sizes around the limits of staging memory: four slots of 4096 bytes.
constexpr std::size_t kSizes[] = {1, 3, 4095, 4096, 4097, 16'383, 16'384, 16'385, 100'000, 1 << 20};

class CopiesTest : public LoopbackTest {
 protected:
  static std::vector<std::byte> Pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      made[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
    return made;
  }
  static std::byte* NewBytes(std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, bytes));
    return static_cast<std::byte*>(memory);
  }
  static std::byte* NewPinned(std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMallocHost(&memory, bytes));
    return static_cast<std::byte*>(memory);
  }
};

TEST_F(CopiesTest, BytesComeBack) {
  for (const std::size_t bytes : kSizes) {
    SCOPED_TRACE(bytes);
    const std::vector<std::byte> sent = Pattern(bytes, 1);
    std::byte* const memory = NewBytes(bytes);
    ASSERT_CUDA(cudaMemcpy(memory, sent.data(), bytes, cudaMemcpyHostToDevice));
    std::vector<std::byte> received(bytes);
    ASSERT_CUDA(cudaMemcpy(received.data(), memory, bytes, cudaMemcpyDeviceToHost));
    EXPECT_EQ(received, sent);
    EXPECT_CUDA(cudaFree(memory));
  }
}

TEST_F(CopiesTest, BytesInTheMiddleComeBackAndTheRestStays) {
  const std::vector<std::byte> sent = Pattern(50'000, 1);
  const std::vector<std::byte> piece = Pattern(20'001, 2);
  std::byte* const memory = NewBytes(sent.size());
  ASSERT_CUDA(cudaMemcpy(memory, sent.data(), sent.size(), cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemcpy(memory + 4001, piece.data(), piece.size(), cudaMemcpyHostToDevice));
  std::vector<std::byte> expected = sent;
  std::copy(piece.begin(), piece.end(), expected.begin() + 4001);
  std::vector<std::byte> received(sent.size());
  ASSERT_CUDA(cudaMemcpy(received.data(), memory, sent.size(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(received, expected);
}

TEST_F(CopiesTest, AsynchronousCopiesOfPinnedMemoryAreThereAfterTheStream) {
  cudaStream_t stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    SCOPED_TRACE(bytes);
    const std::vector<std::byte> sent = Pattern(bytes, 3);
    std::byte* const memory = NewBytes(bytes);
    std::byte* const there = NewPinned(bytes);
    std::byte* const back = NewPinned(bytes);
    std::memcpy(there, sent.data(), bytes);
    ASSERT_CUDA(cudaMemcpyAsync(memory, there, bytes, cudaMemcpyHostToDevice, stream));
    ASSERT_CUDA(cudaMemcpyAsync(back, memory, bytes, cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(std::memcmp(back, sent.data(), bytes), 0);
    EXPECT_CUDA(cudaFree(memory));
    EXPECT_CUDA(cudaFreeHost(there));
    EXPECT_CUDA(cudaFreeHost(back));
  }
}

TEST_F(CopiesTest, PageableMemoryIsTheProgramsAgainWhenAnAsynchronousCopyReturns) {
  cudaStream_t stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    SCOPED_TRACE(bytes);
    const std::vector<std::byte> sent = Pattern(bytes, 4);
    std::vector<std::byte> buffer = sent;
    std::byte* const memory = NewBytes(bytes);
    ASSERT_CUDA(cudaMemcpyAsync(memory, buffer.data(), bytes, cudaMemcpyHostToDevice, stream));
    std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
    // A copy to pageable memory returns after its bytes arrived.
    ASSERT_CUDA(cudaMemcpyAsync(buffer.data(), memory, bytes, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(buffer, sent);
    EXPECT_CUDA(cudaFree(memory));
  }
}

TEST_F(CopiesTest, CopyToPageableMemoryReturnsWhenItsStreamHasComeSoFar) {
  std::uint32_t* const words = NewWords(1);
  cudaStream_t stream = NewStream();
  Hold(stream);
  ASSERT_CUDA(Add(words, 1, 42, stream));
  std::atomic<bool> let = false;
  auto waiting = std::async(std::launch::async, [&] {
    const std::uint32_t word = ReadWord(words, stream);
    EXPECT_TRUE(let.load());
    return word;
  });
  ASSERT_TRUE(WaitForWork(stream, "from-device"));
  let = true;
  Let(stream);
  EXPECT_EQ(waiting.get(), 42U);
}

TEST_F(CopiesTest, OneStreamIsInOrder) {
  cudaStream_t stream = NewStream();
  std::uint32_t* const words = NewWords(30'000);
  const std::vector<std::uint32_t> counted = Count(30'000);
  const std::size_t bytes = counted.size() * sizeof counted[0];
  ASSERT_CUDA(cudaMemcpyAsync(words, counted.data(), bytes, cudaMemcpyHostToDevice, stream));
  ASSERT_CUDA(Add(words, 30'000, 5, stream));
  ASSERT_CUDA(
      cudaMemcpyAsync(words + 10'000, counted.data(), 4 * 10'000, cudaMemcpyHostToDevice, stream));
  ASSERT_CUDA(cudaMemcpyAsync(words + 20'000, words, 4 * 5000, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaMemsetAsync(words, 0, 4 * 2500, stream));
  ASSERT_CUDA(Add(words, 30'000, 1, stream));
  const std::vector<std::uint32_t> after = Read(words, 30'000);
  for (std::uint32_t i = 0; i < 30'000; ++i) {
    const std::uint32_t expected = i < 2500     ? 1
                                   : i < 10'000 ? i + 6
                                   : i < 20'000 ? i - 10'000 + 1
                                   : i < 25'000 ? i - 20'000 + 6
                                                : i + 6;
    ASSERT_EQ(after[i], expected) << i;
  }
}

// The copy to the device reads the bytes written by the copy to the host before it in the stream.
TEST_F(CopiesTest, PinnedMemoryIsReadWhenTheStreamHasComeSoFar) {
  cudaStream_t stream = NewStream();
  for (const std::size_t words : {1UL, 1000UL, 100'000UL}) {
    SCOPED_TRACE(words);
    const std::size_t bytes = words * sizeof(std::uint32_t);
    std::uint32_t* const from = NewWords(words);
    std::uint32_t* const to = NewWords(words);
    std::byte* const between = NewPinned(bytes);
    std::memset(between, 0xff, bytes);
    ASSERT_CUDA(Add(from, static_cast<std::uint32_t>(words), 77, stream));
    ASSERT_CUDA(cudaMemcpyAsync(between, from, bytes, cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaMemcpyAsync(to, between, bytes, cudaMemcpyHostToDevice, stream));
    EXPECT_EQ(Read(to, words), std::vector<std::uint32_t>(words, 77));
    EXPECT_CUDA(cudaFreeHost(between));
  }
}

TEST_F(CopiesTest, NoBytesAreNoCopy) {
  std::byte* const memory = NewBytes(16);
  std::byte here[16] = {};
  EXPECT_CUDA(cudaMemcpy(memory, here, 0, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaMemcpy(here, memory, 0, cudaMemcpyDeviceToHost));
  EXPECT_CUDA(cudaMemcpyAsync(memory, memory, 0, cudaMemcpyDeviceToDevice, nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST_F(CopiesTest, DefaultKindGoesByThePointers) {
  const std::vector<std::byte> sent = Pattern(10'000, 5);
  std::byte* const first = NewBytes(sent.size());
  std::byte* const second = NewBytes(sent.size());
  std::vector<std::byte> received(sent.size());
  std::vector<std::byte> again(sent.size());
  ASSERT_CUDA(cudaMemcpy(first, sent.data(), sent.size(), cudaMemcpyDefault));
  ASSERT_CUDA(cudaMemcpy(second, first, sent.size(), cudaMemcpyDefault));
  ASSERT_CUDA(cudaMemcpy(received.data(), second, sent.size(), cudaMemcpyDefault));
  ASSERT_CUDA(cudaMemcpy(again.data(), received.data(), sent.size(), cudaMemcpyDefault));
  EXPECT_EQ(again, sent);
}

TEST_F(CopiesTest, CopiesWithinTheHostAreCopies) {
  const std::vector<std::byte> sent = Pattern(10'000, 6);
  std::vector<std::byte> received(sent.size());
  EXPECT_CUDA(cudaMemcpy(received.data(), sent.data(), sent.size(), cudaMemcpyHostToHost));
  EXPECT_EQ(received, sent);
}

TEST_F(CopiesTest, UnknownDirectionsAreRefused) {
  std::byte* const memory = NewBytes(16);
  std::byte here[16] = {};
  for (const int kind : {5, 7}) {
    const auto direction = static_cast<cudaMemcpyKind>(kind);
    EXPECT_CUDA_ERROR(cudaMemcpy(memory, here, 16, direction), cudaErrorInvalidMemcpyDirection);
    EXPECT_CUDA_ERROR(cudaMemcpyAsync(memory, here, 16, direction, nullptr),
                      cudaErrorInvalidMemcpyDirection);
  }
}

TEST_F(CopiesTest, PageableMemoryIsNoDevices) {
  std::byte* const memory = NewBytes(16);
  std::byte here[16] = {};
  std::byte there[16] = {};
  EXPECT_CUDA_ERROR(cudaMemcpy(here, there, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(here, there, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(memory, here, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(here, memory, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
}

TEST_F(CopiesTest, BytesBeyondAnAllocationAreRefusedAndNothingIsCopied) {
  std::uint32_t* const words = NewWords(64);
  std::uint32_t* const others = NewWords(64);
  std::vector<std::uint32_t> here(100, 9);
  EXPECT_CUDA_ERROR(cudaMemcpy(words, here.data(), 257, cudaMemcpyHostToDevice),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(words + 63, here.data(), 8, cudaMemcpyHostToDevice),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(here.data(), words + 32, 129, cudaMemcpyDeviceToHost),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(others, words, 257, cudaMemcpyDeviceToDevice),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpyAsync(words + 1, here.data(), 256, cudaMemcpyHostToDevice, nullptr),
                    cudaErrorInvalidValue);
  EXPECT_EQ(Read(words, 64), std::vector<std::uint32_t>(64));
  EXPECT_EQ(Read(others, 64), std::vector<std::uint32_t>(64));
  EXPECT_EQ(here, std::vector<std::uint32_t>(100, 9));
}

TEST_F(CopiesTest, FreedMemoryIsRefused) {
  std::byte* const memory = NewBytes(64);
  std::byte here[64] = {};
  ASSERT_CUDA(cudaFree(memory));
  EXPECT_CUDA_ERROR(cudaMemcpy(memory, here, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(here, memory, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
}

TEST_F(CopiesTest, NullPointersAreRefused) {
  std::byte* const memory = NewBytes(16);
  EXPECT_CUDA_ERROR(cudaMemcpy(memory, nullptr, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemcpy(nullptr, memory, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
}

TEST_F(CopiesTest, CopyHeldBackInOneStreamHoldsNoOther) {
  cudaStream_t held = NewStream();
  cudaStream_t other = NewStream();
  const std::vector<std::byte> sent = Pattern(100'000, 7);
  std::byte* const here = NewPinned(sent.size());
  std::memcpy(here, sent.data(), sent.size());
  std::byte* const first = NewBytes(sent.size());
  std::byte* const second = NewBytes(sent.size());
  cudaEvent_t event = NewEvent();
  cudaStream_t before = NewStream();
  Hold(before);
  ASSERT_CUDA(Launch("nothing", before));
  ASSERT_CUDA(cudaEventRecord(event, before));
  ASSERT_CUDA(cudaStreamWaitEvent(held, event, 0));
  ASSERT_CUDA(cudaMemcpyAsync(first, here, 4096, cudaMemcpyHostToDevice, held));
  ASSERT_CUDA(cudaMemcpyAsync(second, here, sent.size(), cudaMemcpyHostToDevice, other));
  std::vector<std::byte> received(sent.size());
  ASSERT_CUDA(cudaMemcpyAsync(received.data(), second, sent.size(), cudaMemcpyDeviceToHost, other));
  EXPECT_EQ(received, sent);
  EXPECT_CUDA_ERROR(cudaStreamQuery(held), cudaErrorNotReady);
  Let(before);
  ASSERT_CUDA(cudaStreamSynchronize(held));
  ASSERT_CUDA(cudaMemcpy(received.data(), first, 4096, cudaMemcpyDeviceToHost));
  EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + 4096, received.begin()));
  EXPECT_CUDA(cudaFreeHost(here));
}

// The same with a copy larger than staging memory, after long work.
TEST_F(CopiesTest, LongCopyHeldBackInOneStreamHoldsNoOther) {
  GTEST_SKIP() << "the chunks of one copy take all slots of the channel, and keep them until the "
                  "device has done what is before them in their stream";
  cudaStream_t held = NewStream();
  cudaStream_t other = NewStream();
  const std::vector<std::byte> sent = Pattern(100'000, 8);
  std::byte* const here = NewPinned(sent.size());
  std::memcpy(here, sent.data(), sent.size());
  std::byte* const first = NewBytes(sent.size());
  std::byte* const second = NewBytes(sent.size());
  Hold(held);
  ASSERT_CUDA(cudaMemcpyAsync(first, here, sent.size(), cudaMemcpyHostToDevice, held));
  ASSERT_TRUE(WaitForWork(held, "to-device"));
  ASSERT_CUDA(cudaMemcpyAsync(second, here, sent.size(), cudaMemcpyHostToDevice, other));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  Let(held);
  EXPECT_CUDA(cudaFreeHost(here));
}

}  // namespace
}  // namespace cuspan
