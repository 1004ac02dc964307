#include "store/layout/cost.h"

#include <gtest/gtest.h>

#include <limits>

namespace cuspan::store {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

TEST(CostTest, SingleReadsLikeAnExtent) {
  EXPECT_EQ(SingleReadsLikeAnExtent(106e3, 1.56e9), 142u);
  EXPECT_EQ(SingleReadsLikeAnExtent(1000, 2097152), 1000u);
  EXPECT_EQ(SingleReadsLikeAnExtent(1000, 2097152e3), 1u);
  EXPECT_EQ(SingleReadsLikeAnExtent(1000, 2097153e3), 0u);
  EXPECT_EQ(SingleReadsLikeAnExtent(1, 1), 2097152u);
  EXPECT_EQ(SingleReadsLikeAnExtent(1e15, 1), kLargest);
}

TEST(CostTest, RequestsUnderWay) {
  EXPECT_EQ(RequestsUnderWay(106e3, nanoseconds(170'000)), 19u);
  EXPECT_EQ(RequestsUnderWay(100e3, nanoseconds(170'000)), 17u);
  EXPECT_EQ(RequestsUnderWay(100e3, nanoseconds(170'001)), 18u);
  EXPECT_EQ(RequestsUnderWay(1, nanoseconds(1)), 1u);
  EXPECT_EQ(RequestsUnderWay(1e6, nanoseconds(1'100'000)), 1100u);
  EXPECT_EQ(RequestsUnderWay(1e15, nanoseconds(1'000'000'000'000)),
            std::uint64_t{1'000'000} * 1'000'000'000'000);
  EXPECT_EQ(RequestsUnderWay(1e15, nanoseconds(100'000'000'000'000)), kLargest);
}

}  // namespace
}  // namespace cuspan::store
