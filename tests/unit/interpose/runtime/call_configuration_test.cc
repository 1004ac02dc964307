// Calls made by nvcc's code around <<<…>>>.
#include <gtest/gtest.h>

#include <thread>

#include "interpose/runtime/api.h"

extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, CUstream_st*);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);

namespace {

struct Popped {
  cudaError_t error;
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared = 0;
  cudaStream_t stream = nullptr;
};

Popped Pop() {
  Popped popped;
  popped.error = __cudaPopCallConfiguration(&popped.grid, &popped.block, &popped.dynamic_shared,
                                            &popped.stream);
  return popped;
}

TEST(CallConfiguration, PopGivesWhatWasPushed) {
  auto* const stream = reinterpret_cast<CUstream_st*>(0x1000);
  EXPECT_EQ(__cudaPushCallConfiguration({1, 2, 3}, {4, 5, 6}, 7, stream), 0U);
  const Popped popped = Pop();
  EXPECT_EQ(popped.error, cudaSuccess);
  EXPECT_EQ(popped.grid.x, 1U);
  EXPECT_EQ(popped.grid.y, 2U);
  EXPECT_EQ(popped.grid.z, 3U);
  EXPECT_EQ(popped.block.x, 4U);
  EXPECT_EQ(popped.block.y, 5U);
  EXPECT_EQ(popped.block.z, 6U);
  EXPECT_EQ(popped.dynamic_shared, 7U);
  EXPECT_EQ(popped.stream, stream);
}

// An argument of a launch may itself contain a launch.
TEST(CallConfiguration, IsAStack) {
  __cudaPushCallConfiguration({1}, {1}, 0, nullptr);
  __cudaPushCallConfiguration({2}, {1}, 0, nullptr);
  EXPECT_EQ(Pop().grid.x, 2U);
  EXPECT_EQ(Pop().grid.x, 1U);
}

TEST(CallConfiguration, PopWithoutPushIsAnError) {
  EXPECT_EQ(Pop().error, cudaErrorMissingConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMissingConfiguration);
}

TEST(CallConfiguration, BelongsToItsThread) {
  __cudaPushCallConfiguration({1}, {1}, 0, nullptr);
  std::thread([] { EXPECT_EQ(Pop().error, cudaErrorMissingConfiguration); }).join();
  EXPECT_EQ(Pop().error, cudaSuccess);
}

}  // namespace
