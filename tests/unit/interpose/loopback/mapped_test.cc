// Page-locked memory of the program used by kernels.
#include <algorithm>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class MappedTest : public LoopbackTest {
 protected:
  static std::uint32_t* NewMapped(std::size_t words) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaHostAlloc(&memory, words * sizeof(std::uint32_t), cudaHostAllocMapped));
    return static_cast<std::uint32_t*>(memory);
  }
};

TEST_F(MappedTest, KernelsUseMappedMemory) {
  std::uint32_t* const words = NewMapped(10'000);
  std::uint32_t* there = nullptr;
  ASSERT_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&there), words, 0));
  for (std::uint32_t round = 1; round <= 3; ++round) {
    for (std::uint32_t i = 0; i < 10'000; ++i) words[i] = i;
    ASSERT_CUDA(Add(there, 10'000, round, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    for (std::uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(words[i], i + round);
  }
  EXPECT_CUDA(cudaFreeHost(words));
}

TEST_F(MappedTest, KernelsUseRegisteredMemoryByItsDevicePointer) {
  std::vector<std::uint32_t> words = Count(10'000);
  ASSERT_CUDA(cudaHostRegister(words.data(), 40'000, cudaHostRegisterMapped));
  std::uint32_t* there = nullptr;
  ASSERT_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&there), words.data(), 0));
  ASSERT_CUDA(Add(there + 100, 9900, 5, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (std::uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(words[i], i < 100 ? i : i + 5);
  EXPECT_CUDA(cudaHostUnregister(words.data()));
}

TEST_F(MappedTest, KernelsUseRegisteredMemoryByItsHostAddress) {
  std::vector<std::uint32_t> words = Count(10'000);
  ASSERT_CUDA(cudaHostRegister(words.data(), 40'000, cudaHostRegisterDefault));
  ASSERT_CUDA(Add(words.data() + 100, 9900, 5, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (std::uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(words[i], i < 100 ? i : i + 5);
  EXPECT_CUDA(cudaHostUnregister(words.data()));
}

TEST_F(MappedTest, SaysSo) {
  std::uint32_t* const words = NewMapped(4);
  unsigned flags = 0;
  EXPECT_CUDA(cudaHostGetFlags(&flags, words));
  EXPECT_EQ(flags & cudaHostAllocMapped, unsigned{cudaHostAllocMapped});
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words + 1));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, words + 1);
  EXPECT_EQ(attributes.hostPointer, words + 1);
  EXPECT_CUDA(cudaFreeHost(words));
}

// Devices can access any page-locked memory allocated by CUDA, because the address space is
// unified.
TEST_F(MappedTest, KernelsUseWhatWasNotAskedToBeMapped) {
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocHost(&memory, 40'000));
  auto* const words = static_cast<std::uint32_t*>(memory);
  for (std::uint32_t i = 0; i < 10'000; ++i) words[i] = i;
  ASSERT_CUDA(Add(words, 10'000, 2, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (std::uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(words[i], i + 2);
  EXPECT_CUDA(cudaFreeHost(memory));
}

// The program writes some words while a kernel may be writing words between them.
TEST_F(MappedTest, ScatteredWordsGoTogetherAndAlone) {
  constexpr std::uint32_t kWords = 20'000;
  std::uint32_t* const words = NewMapped(kWords);
  std::vector<std::uint32_t> expected(kWords);
  std::fill_n(words, kWords, 0);
  cudaStream_t stream = NewStream();
  for (std::uint32_t round = 1; round <= 4; ++round) {
    for (std::uint32_t i = 1; i < kWords; i += 1000) {
      ASSERT_CUDA(Add(words + i, 1, round, stream));
      expected[i] += round;
    }
    for (std::uint32_t i = 0; i < kWords; i += 3)
      if (i % 1000 != 1) expected[i] = words[i] = 0x01010101 * round + i;
    ASSERT_CUDA(Add(words + kWords / 2, kWords / 2, 5, stream));
    for (std::uint32_t i = kWords / 2; i < kWords; ++i) expected[i] += 5;
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    for (std::uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(words[i], expected[i]) << i;
  }
  // Without a concurrent kernel they need not arrive one by one.
  for (std::uint32_t i = 0; i < kWords; i += 1000) expected[i] = ++words[i];
  ASSERT_CUDA(Add(words + 1, 1, 0, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  for (std::uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(words[i], expected[i]) << i;
  EXPECT_CUDA(cudaFreeHost(words));
}

// Words written by the host reach a kernel beside another, held kernel.
TEST_F(MappedTest, ScatteredWordsPassAKernelThatRuns) {
  std::uint32_t* const words = NewMapped(100);
  std::fill_n(words, 100, 0);
  cudaStream_t running = NewStream();
  cudaStream_t stream = NewStream();
  Hold(running);
  ASSERT_CUDA(Add(words, 1, 7, running));
  for (std::uint32_t i = 1; i < 100; i += 2) words[i] = i;
  ASSERT_CUDA(Add(words + 1, 99, 1000, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  for (std::uint32_t i = 1; i < 100; ++i) ASSERT_EQ(words[i], i % 2 == 0 ? 1000 : 1000 + i);
  Let(running);
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(words[0], 7U);
  EXPECT_CUDA(cudaFreeHost(words));
}

// Copies of every other column, between kernels using the same page-locked memory.
TEST_F(MappedTest, CopiesOfRowsComeBetweenKernels) {
  constexpr std::size_t kRows = 100;
  constexpr std::size_t kColumns = 50;
  constexpr std::size_t kPitch = 2 * kColumns;
  constexpr std::size_t kBytes = sizeof(std::uint32_t);
  std::uint32_t* const words = NewMapped(kRows * kPitch);
  std::uint32_t* const rows = NewWords(kRows * kColumns);
  cudaStream_t stream = NewStream();
  for (const cudaMemcpyKind back : {cudaMemcpyDeviceToHost, cudaMemcpyDefault}) {
    for (std::uint32_t i = 0; i < kRows * kPitch; ++i) words[i] = i;
    ASSERT_CUDA(Add(words, kRows * kPitch, 1, stream));
    ASSERT_CUDA(cudaMemcpy2DAsync(rows, kColumns * kBytes, words, kPitch * kBytes,
                                  kColumns * kBytes, kRows, cudaMemcpyHostToDevice, stream));
    ASSERT_CUDA(Add(rows, kRows * kColumns, 1000, stream));
    ASSERT_CUDA(cudaMemcpy2DAsync(words + kColumns, kPitch * kBytes, rows, kColumns * kBytes,
                                  kColumns * kBytes, kRows, back, stream));
    ASSERT_CUDA(Add(words, kRows * kPitch, 7, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    for (std::uint32_t row = 0; row < kRows; ++row) {
      for (std::uint32_t i = 0; i < kColumns; ++i) {
        const std::uint32_t copied = row * kPitch + i;
        ASSERT_EQ(words[copied], copied + 8) << row;
        ASSERT_EQ(words[copied + kColumns], copied + 1008) << row;
      }
    }
  }
  EXPECT_CUDA(cudaFreeHost(words));
}

TEST_F(MappedTest, HostFunctionsSeeWhatKernelsWrote) {
  struct Seen {
    const std::uint32_t* words;
    std::uint32_t word = 0;
  } seen{NewMapped(1)};
  cudaStream_t stream = NewStream();
  ASSERT_CUDA(cudaMemsetAsync(const_cast<std::uint32_t*>(seen.words), 0, 4, stream));
  ASSERT_CUDA(Add(const_cast<std::uint32_t*>(seen.words), 1, 9, stream));
  ASSERT_CUDA(cudaLaunchHostFunc(
      stream,
      [](void* data) {
        auto* const here = static_cast<Seen*>(data);
        here->word = *here->words;
      },
      &seen));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen.word, 9U);
  EXPECT_CUDA(cudaFreeHost(const_cast<std::uint32_t*>(seen.words)));
}

}  // namespace
}  // namespace cuspan
