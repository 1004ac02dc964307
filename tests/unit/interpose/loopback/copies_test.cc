// Copies between the program's memory and devices, through the whole client.
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

using CopiesTest = LoopbackTest;

std::vector<std::uint32_t> Count(std::size_t words) {
  std::vector<std::uint32_t> counted(words);
  for (std::size_t i = 0; i < words; ++i) counted[i] = static_cast<std::uint32_t>(i);
  return counted;
}

TEST_F(CopiesTest, BytesComeBack) {
  const std::vector<std::uint32_t> sent = Count(100'000);
  const std::size_t bytes = sent.size() * sizeof sent[0];
  void* memory = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, bytes));
  ASSERT_CUDA(cudaMemcpy(memory, sent.data(), bytes, cudaMemcpyHostToDevice));
  std::vector<std::uint32_t> received(sent.size());
  ASSERT_CUDA(cudaMemcpy(received.data(), memory, bytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(received, sent);
  EXPECT_CUDA(cudaFree(memory));
}

TEST_F(CopiesTest, KernelsWorkOnWhatWasCopied) {
  std::uint32_t* words = nullptr;
  ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&words), 4096));
  ASSERT_CUDA(cudaMemset(words, 0, 4096));
  ASSERT_CUDA(Add(words, 1024, 35, nullptr));
  ASSERT_CUDA(Add(words + 1, 1, 7, nullptr));
  std::uint32_t two[2] = {};
  ASSERT_CUDA(cudaMemcpy(two, words, sizeof two, cudaMemcpyDefault));
  EXPECT_EQ(two[0], 35U);
  EXPECT_EQ(two[1], 42U);
}

TEST_F(CopiesTest, ManagedMemoryIsTheDevicesAndTheHosts) {
  std::uint32_t* words = nullptr;
  ASSERT_CUDA(cudaMallocManaged(reinterpret_cast<void**>(&words), 1 << 16, cudaMemAttachGlobal));
  for (std::uint32_t i = 0; i < 1 << 14; ++i) words[i] = i;
  ASSERT_CUDA(Add(words, 1 << 14, 1000, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (std::uint32_t i = 0; i < 1 << 14; ++i) ASSERT_EQ(words[i], i + 1000);
  EXPECT_CUDA(cudaFree(words));
}

}  // namespace
}  // namespace cuspan
