#include "proxy/objects/kernel_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace cuspan::proxy {
namespace {

TEST(KernelTimeTest, KnowsNothingAtFirst) {
  KernelTime time;
  EXPECT_FALSE(time.Predict(1).has_value());
  time.Add(1, 1e6);
  EXPECT_FALSE(time.Predict(1).has_value()) << "the first launch pays for the driver's own";
}

TEST(KernelTimeTest, TellsWhatItSaw) {
  KernelTime time;
  for (int i = 0; i < 5; ++i) time.Add(100, 2000);
  EXPECT_DOUBLE_EQ(*time.Predict(100), 2000);
  EXPECT_DOUBLE_EQ(*time.Predict(5), 2000) << "of one size nothing is known about others";
}

TEST(KernelTimeTest, GrowsWithTheBlocks) {
  KernelTime time;
  std::mt19937 random(1);
  time.Add(1, 1e9);
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t blocks = 1 + random() % 1000;
    time.Add(blocks, 5000 + 20.0 * static_cast<double>(blocks));
  }
  EXPECT_NEAR(*time.Predict(500), 15'000, 100);
  EXPECT_NEAR(*time.Predict(4000), 85'000, 1000);
}

// More blocks never take less time, for any samples.
TEST(KernelTimeTest, NeverShrinksWithTheBlocks) {
  KernelTime time;
  time.Add(1, 0);
  time.Add(10, 5000);
  time.Add(1000, 3000);
  EXPECT_GE(*time.Predict(1'000'000), *time.Predict(1));
  EXPECT_GE(*time.Predict(1), 0);
}

TEST(KernelTimeTest, FollowsWhatChanges) {
  KernelTime time;
  for (int i = 0; i < 30; ++i) time.Add(1, 1000);
  for (int i = 0; i < 60; ++i) time.Add(1, 3000);
  EXPECT_NEAR(*time.Predict(1), 3000, 30);
}

TEST(KernelTimeTest, MeasuresTheFirstLaunchesAndThenFew) {
  KernelTime time;
  int first = 0, later = 0;
  const auto launch = [&] {
    if (!time.WantsSample()) return 0;
    time.Sampled();
    return 1;
  };
  for (int i = 0; i < 8; ++i) first += launch();
  for (int i = 0; i < 100'000; ++i) later += launch();
  EXPECT_EQ(first, 8);
  EXPECT_GE(later, 50);
  EXPECT_LE(later, 150);
}

TEST(KernelTimeTest, TriesAgainWhatCouldNotBeMeasured) {
  KernelTime time;
  int wanted = 0;
  for (int i = 0; i < 10'000; ++i) wanted += time.WantsSample() ? 1 : 0;
  EXPECT_GE(wanted, 500);
  EXPECT_LE(wanted, 1000);
}

// --- Times kept between runs

TEST(KernelTimeTest, NothingIsKeptWithoutASample) {
  KernelTime time;
  EXPECT_FALSE(time.Sums().has_value());
  time.Restore({2, 200, 20'000, 5'000, 500'000});
  time.Add(100, 9'000);
  EXPECT_FALSE(time.Sums().has_value()) << "the first launch does not count";
  time.Add(100, 2'000);
  ASSERT_TRUE(time.Sums().has_value());
  EXPECT_TRUE(time.Sums()->sound());
}

TEST(KernelTimeTest, TellsWhatAnEarlierRunSaw) {
  KernelTime earlier;
  for (int i = 0; i < 20; ++i)
    for (const std::uint64_t blocks : {10, 100, 1000})
      earlier.Add(blocks, 5'000 + 20.0 * static_cast<double>(blocks));
  KernelTime time;
  time.Restore(*earlier.Sums());
  for (const std::uint64_t blocks : {10, 500, 4000})
    EXPECT_NEAR(*time.Predict(blocks), *earlier.Predict(blocks), 1e-3) << blocks;
}

TEST(KernelTimeTest, OwnSamplesOverrideWhatWasRestored) {
  KernelTime time;
  time.Restore({10, 1'000, 100'000, 10 * 50'000.0, 1'000 * 50'000.0});
  EXPECT_NEAR(*time.Predict(100), 50'000, 1e-6);
  time.Add(100, 90'000);
  EXPECT_NEAR(*time.Predict(100), 50'000, 1e-6) << "the first launch does not count";
  time.Add(100, 100'000);
  EXPECT_NEAR(*time.Predict(100), 100'000, 10'000);
  for (int i = 0; i < 3; ++i) time.Add(100, 100'000);
  EXPECT_NEAR(*time.Predict(100), 100'000, 2'500);
}

// The restored growth of the time with the blocks stays known.
TEST(KernelTimeTest, OwnSamplesOfOneSizeKeepTheSlope) {
  KernelTime time;
  time.Restore({2, 1'100, 1'010'000, 11'000, 10'100'000});  // 10 ns a block.
  for (int i = 0; i < 9; ++i) time.Add(1'000, 10'000);
  EXPECT_NEAR(*time.Predict(2'000), 20'000, 200);
}

TEST(KernelTimeTest, UnsoundSumsAreNotRestored) {
  const double nan = std::nan("");
  for (const KernelTimeSums& sums :
       {KernelTimeSums{}, KernelTimeSums{-1, 1, 1, 1, 1}, KernelTimeSums{2, 200, 20'000, nan, 1},
        KernelTimeSums{2, 200, 100, 1, 1}, KernelTimeSums{1e9, 1e9, 1e9, 1, 1},
        KernelTimeSums{2, 1, 1, 1, 1}}) {
    KernelTime time;
    time.Restore(sums);
    EXPECT_FALSE(time.Predict(1).has_value()) << sums.count << " " << sums.blocks;
  }
  // Too late: it has own samples.
  KernelTime time;
  for (int i = 0; i < 2; ++i) time.Add(1, 1'000);
  time.Restore({1, 1, 1, 5'000, 5'000});
  EXPECT_DOUBLE_EQ(*time.Predict(1), 1'000);
}

TEST(PredictionErrorsTest, CountWherePredictionsWere) {
  KernelTime time;
  time.Add(1, 9'000);
  time.Add(1, 1'000);
  EXPECT_EQ(time.Errors().count(), 0U) << "nothing was predicted yet";
  for (int i = 0; i < 5; ++i) time.Add(1, 1'000);
  EXPECT_EQ(time.Errors().count(), 5U);
  EXPECT_LE(*time.Errors().Median(), 0.01);
  KernelTime restored;
  restored.Restore({1, 1, 1, 1'500, 1'500});
  restored.Add(1, 9'000);
  EXPECT_EQ(restored.Errors().count(), 0U) << "the first launch does not count";
  restored.Add(1, 1'000);
  EXPECT_EQ(restored.Errors().count(), 1U);
  EXPECT_NEAR(*restored.Errors().Median(), 0.5, 0.2);
}

TEST(PredictionErrorsTest, TellTheMedian) {
  EXPECT_FALSE(PredictionErrors().Median().has_value());
  std::mt19937 random(1);
  for (const double scale : {0.005, 0.08, 0.3, 3.0}) {
    PredictionErrors one, other;
    std::vector<double> all;
    for (int i = 0; i < 1001; ++i) {
      const double error = scale * static_cast<double>(random() % 1000) / 500;
      all.push_back(error);
      (i % 3 == 0 ? one : other).Add(error);
    }
    one.Add(other);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(one.count(), 1001U);
    EXPECT_NEAR(*one.Median(), all[500], all[500] * 0.2 + 0.005) << scale;
  }
  PredictionErrors beyond;
  beyond.Add(1e9);
  EXPECT_EQ(*beyond.Median(), 10);
}

}  // namespace
}  // namespace cuspan::proxy
