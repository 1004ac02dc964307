#include "interpose/client/memory/arrival_order.h"

#include <gtest/gtest.h>

#include <random>

namespace cuspan {
namespace {

// Address of the last byte to arrive.
std::uint64_t LastOf(const ByteRuns& runs) {
  std::uint64_t last = 0;
  for (const ByteRuns& part : InOrderOfArrival(runs))
    if (!part.empty()) last = part.back().base + part.back().bytes - 1;
  return last;
}

TEST(ArrivalOrder, AWordByItselfComesLast) {
  EXPECT_EQ(LastOf({{8, 4}, {1000, 400}}), 11U);
  EXPECT_EQ(LastOf({{1000, 400}, {8000, 1}}), 8000U);
}

TEST(ArrivalOrder, TheFirstWordOfAPieceComesAfterTheRest) {
  EXPECT_EQ(LastOf({{16, 400}}), 23U);
  EXPECT_EQ(LastOf({{16, 1}, {20, 2}, {24, 2}, {28, 2}, {60, 1}}), 16U);
}

TEST(ArrivalOrder, TheLastWordOfAPieceComesAfterWhatLiesInside) {
  const auto [inside, last, half, first, single] = InOrderOfArrival({{16, 400}});
  ASSERT_EQ(inside.size(), 1U);
  EXPECT_EQ(inside[0].base, 24U);
  EXPECT_EQ(inside[0].bytes, 384U);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].base, 408U);
  EXPECT_EQ(last[0].bytes, 8U);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(single.empty());
}

TEST(ArrivalOrder, TheLowerHalfOfAWordComesAfterTheUpperOne) {
  EXPECT_EQ(LastOf({{16, 1}, {20, 2}}), 16U);
  EXPECT_EQ(LastOf({{16, 1}, {20, 2}, {24, 100}}), 16U);
  EXPECT_EQ(LastOf({{20, 4}}), 23U) << "there is no lower half";
  EXPECT_EQ(InOrderOfArrival({{16, 8}}).back().size(), 1U) << "one number";
}

TEST(ArrivalOrder, NothingForNothing) {
  for (const ByteRuns& part : InOrderOfArrival({})) EXPECT_TRUE(part.empty());
}

TEST(ArrivalOrder, EachByteArrivesOnce) {
  std::mt19937 random(1);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 200; ++round) {
    ByteRuns runs;
    std::vector<int> expected(20'000);
    for (std::uint64_t at = below(100); at < 15'000;) {
      const std::uint64_t bytes = 1 + below(below(2) == 0 ? 8 : 200);
      runs.push_back({at, bytes});
      for (std::uint64_t i = at; i < at + bytes; ++i) expected[i] = 1;
      at += bytes + 1 + below(below(2) == 0 ? 8 : 400);
    }
    std::vector<int> arrived(expected.size());
    for (const ByteRuns& part : InOrderOfArrival(runs)) {
      std::uint64_t end = 0;
      for (const auto& run : part) {
        EXPECT_GE(run.base, end) << "ascending";
        end = run.base + run.bytes;
        for (std::uint64_t i = run.base; i < end; ++i) ++arrived[i];
      }
    }
    EXPECT_EQ(arrived, expected);
  }
}

}  // namespace
}  // namespace cuspan
