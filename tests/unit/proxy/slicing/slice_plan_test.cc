#include "proxy/slicing/slice_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "proxy/slicing/slice_ptx.h"

namespace cuspan::slicing {
namespace {

constexpr std::uint64_t kLimit = 500'000;

TEST(SlicePlanTest, ShortLaunchesStayWhole) {
  for (const std::uint64_t time : {std::uint64_t{0}, kLimit}) {
    const SlicePlan plan = PlanSlices(100'000, time, 1000, kLimit);
    EXPECT_EQ(plan.slices, 1u);
    EXPECT_EQ(plan.blocks, 100'000u);
  }
}

TEST(SlicePlanTest, ASliceIsWholeWavesThatFitTheLimit) {
  // 20 waves of 1 ms: one per slice. 200 of 100 µs: five per slice.
  EXPECT_EQ(PlanSlices(20'000, 20'000'000, 1000, kLimit).blocks, 1000u);
  EXPECT_EQ(PlanSlices(20'000, 20'000'000, 1000, kLimit).slices, 20u);
  EXPECT_EQ(PlanSlices(200'000, 20'000'000, 1000, kLimit).blocks, 5000u);
  EXPECT_EQ(PlanSlices(200'000, 20'000'000, 1000, kLimit).slices, 40u);
}

TEST(SlicePlanTest, SlicesAreOfAboutTheSameSize) {
  // 11 waves, and 10 fit a slice: not 10 and 1.
  const SlicePlan plan = PlanSlices(11'000, 550'000, 1000, kLimit);
  EXPECT_EQ(plan.slices, 2u);
  EXPECT_EQ(plan.blocks, 6000u);
}

TEST(SlicePlanTest, BlocksThatMayWaitForEachOtherStayTogether) {
  EXPECT_EQ(PlanSlices(1000, 1'000'000'000, 1000, kLimit).slices, 1u);
  EXPECT_EQ(PlanSlices(1001, 1'000'000'000, 1000, kLimit).slices, 2u);
}

TEST(SlicePlanTest, ThereAreNotTooManySlices) {
  const SlicePlan plan = PlanSlices(100'000'000, 100'000'000'000, 100, kLimit);
  EXPECT_LE(plan.slices, kMaxSlices);
  EXPECT_GE(plan.slices, kMaxSlices - 20);
  EXPECT_EQ(plan.blocks % 100, 0u);
}

TEST(SlicePlanTest, GridsThatCanNotBeCountedStayWhole) {
  EXPECT_EQ(PlanSlices(kMaxBlocks + 1, ~std::uint64_t{0}, 1000, kLimit).slices, 1u);
  EXPECT_GT(PlanSlices(kMaxBlocks, ~std::uint64_t{0}, 1000, kLimit).slices, 1u);
}

TEST(SlicePlanTest, EveryBlockIsInOneSlice) {
  std::mt19937_64 random(1);
  const auto any = [&] { return random() >> (random() % 64); };
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t blocks = any(), time = any(), wave = any(), limit = any();
    const SlicePlan plan = PlanSlices(blocks, time, wave, limit);
    ASSERT_GE(plan.slices, 1u);
    if (plan.slices == 1) {
      ASSERT_EQ(plan.blocks, blocks);
      continue;
    }
    ASSERT_LE(plan.slices, kMaxSlices);
    ASSERT_LE(plan.blocks, kMaxSliceBlocks);
    ASSERT_LT(plan.blocks * (plan.slices - 1), blocks);
    ASSERT_GE(plan.blocks * plan.slices, blocks);
    if (wave != 0 && wave <= kMaxSliceBlocks) {
      ASSERT_EQ(plan.blocks % wave, 0u);
    }
  }
}

}  // namespace
}  // namespace cuspan::slicing
