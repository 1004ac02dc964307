// Memory set to a value.
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class SetsTest : public LoopbackTest {
 protected:
  static std::vector<unsigned char> ReadBytes(const void* memory, std::size_t bytes) {
    std::vector<unsigned char> read(bytes);
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_CUDA(cudaMemcpy(read.data(), memory, bytes, cudaMemcpyDeviceToHost));
    return read;
  }
};

TEST_F(SetsTest, TheLowByteOfTheValueCounts) {
  std::uint32_t* const words = NewWords(4);
  ASSERT_CUDA(cudaMemset(words, 0x1234, 15));
  std::vector<unsigned char> expected(15, 0x34);
  expected.push_back(0);
  EXPECT_EQ(ReadBytes(words, 16), expected);
  ASSERT_CUDA(cudaMemset(words, -1, 16));
  EXPECT_EQ(ReadBytes(words, 16), std::vector<unsigned char>(16, 0xff));
}

TEST_F(SetsTest, AreInTheOrderOfTheirStream) {
  std::uint32_t* const words = NewWords(1000);
  cudaStream_t stream = NewStream();
  Hold(stream);
  ASSERT_CUDA(Add(words, 1000, 5, stream));
  ASSERT_CUDA(cudaMemsetAsync(words, 0, 2000, stream));
  ASSERT_CUDA(Add(words, 1000, 1, stream));
  EXPECT_EQ(ReadWord(words, NewStream()), 0U);
  Let(stream);
  std::vector<std::uint32_t> expected(1000, 6);
  std::fill_n(expected.begin(), 500, 1);
  EXPECT_EQ(Read(words, 1000), expected);
}

TEST_F(SetsTest, RowsAreSetAndGapsStay) {
  std::uint32_t* const words = NewWords(4 * 100);
  ASSERT_CUDA(cudaMemset2D(words, 16, 0x11, 9, 100));
  const std::vector<unsigned char> after = ReadBytes(words, 1600);
  for (std::size_t i = 0; i < 1600; ++i) ASSERT_EQ(after[i], i % 16 < 9 ? 0x11 : 0) << i;
  ASSERT_CUDA(cudaMemset2DAsync(words, 16, 0x22, 16, 100, NewStream()));
  EXPECT_EQ(ReadBytes(words, 1600), std::vector<unsigned char>(1600, 0x22));
}

TEST_F(SetsTest, BoxesAreSetAndGapsStay) {
  cudaPitchedPtr box{};
  ASSERT_CUDA(cudaMalloc3D(&box, (cudaExtent{20, 6, 4})));
  const std::size_t bytes = box.pitch * 6 * 4;
  ASSERT_CUDA(cudaMemset(box.ptr, 0, bytes));
  ASSERT_CUDA(cudaMemset3D(box, 0x33, (cudaExtent{10, 3, 2})));
  const std::vector<unsigned char> after = ReadBytes(box.ptr, bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t row = i / box.pitch;
    const bool inside = i % box.pitch < 10 && row % 6 < 3 && row / 6 < 2;
    ASSERT_EQ(after[i], inside ? 0x33 : 0) << i;
  }
}

TEST_F(SetsTest, NothingToSetIsFine) {
  std::uint32_t* const words = NewWords(4);
  EXPECT_CUDA(cudaMemset(words, 1, 0));
  EXPECT_CUDA(cudaMemset2D(words, 4, 1, 0, 4));
  EXPECT_CUDA(cudaMemset2D(words, 4, 1, 4, 0));
  EXPECT_EQ(Read(words, 4), std::vector<std::uint32_t>(4));
}

TEST_F(SetsTest, WhatIsBeyondAnAllocationIsRefusedAndNothingIsSet) {
  std::uint32_t* const words = NewWords(16);
  unsigned char here[16] = {};
  EXPECT_CUDA_ERROR(cudaMemset(words, 1, 65), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemsetAsync(words + 15, 1, 5, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemset2D(words, 16, 1, 8, 5), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemset2D(words + 3, 16, 1, 8, 4), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemset(here, 1, 16), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemset(nullptr, 1, 16), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemset2D(words, 4, 1, 8, 2), cudaErrorInvalidValue);
  EXPECT_EQ(Read(words, 16), std::vector<std::uint32_t>(16));
}

}  // namespace
}  // namespace cuspan
