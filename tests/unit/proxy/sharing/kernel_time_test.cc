#include "proxy/sharing/kernel_time.h"

#include <gtest/gtest.h>

#include <random>

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

// More blocks never take less, whatever the samples were.
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

}  // namespace
}  // namespace cuspan::proxy
