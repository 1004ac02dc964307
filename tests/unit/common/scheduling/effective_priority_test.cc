#include "common/scheduling/effective_priority.h"

#include <gtest/gtest.h>

#include <array>

namespace cuspan::scheduling {
namespace {

TEST(EffectivePriorityTest, IsTheFormula) {
  const std::array<Claim, 2> claims = {
      Claim{
          .priority = 3, .last_wait = 10, .average_wait = 7, .gpu_time = 20, .proxy_priority = -2},
      Claim{.priority = 5, .last_wait = 30, .gpu_time = 40}};
  std::array<double, 2> effective{};
  EffectivePriorities(claims, 4, {0.1, 0.2, 0.01, 0.5}, effective);
  EXPECT_DOUBLE_EQ(effective[0],
                   3 + 0.1 * (10 - 20) + 0.2 * (7 - 4) + 0.01 * (30 - 20) + 0.5 * (-2 - -1));
  EXPECT_DOUBLE_EQ(effective[1],
                   5 + 0.1 * (30 - 20) + 0.2 * (0 - 4) + 0.01 * (30 - 40) + 0.5 * (0 - -1));
}

TEST(EffectivePriorityTest, OneAloneHasItsStaticPriority) {
  const std::array<Claim, 1> claims = {Claim{.priority = 3, .last_wait = 10, .gpu_time = 20}};
  std::array<double, 1> effective{};
  EffectivePriorities(claims, 0, {}, effective);
  EXPECT_DOUBLE_EQ(effective[0], 3);
}

// A higher priority prevails over any GPU time used before.
TEST(EffectivePriorityTest, GpuTimeDecidesBetweenEqualsOnly) {
  const std::array<Claim, 2> claims = {Claim{.priority = 1, .gpu_time = 1e9}, Claim{}};
  std::array<double, 2> effective{};
  EffectivePriorities(claims, 0, {}, effective);
  EXPECT_GE(effective[0], effective[1]);
}

}  // namespace
}  // namespace cuspan::scheduling
