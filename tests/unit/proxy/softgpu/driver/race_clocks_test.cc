// Tests the happens-before relation of accesses.
#include "proxy/softgpu/rt/race_clocks.h"

#include <gtest/gtest.h>

namespace cuspan::softgpu {
namespace {

UnitSet Threads(std::initializer_list<std::uint32_t> numbers) {
  UnitSet set;
  for (const std::uint32_t number : numbers) set.Add(number);
  return set;
}

constexpr std::uint64_t kPlace = 0x1000, kOtherPlace = 0x2000, kNowhere = 0x3000;

class RaceClocksTest : public ::testing::Test {
 protected:
  RaceClocksTest() { clocks_.Begin(70); }
  // An access of a thread at a moment of its clock.
  struct Access {
    std::uint32_t thread, time;
  };
  Access Now(std::uint32_t thread) const { return {thread, clocks_.Now(thread)}; }
  bool Knows(std::uint32_t thread, const Access& access) const {
    return clocks_.Knows(thread, access.thread, access.time);
  }
  RaceClocks clocks_;
};

TEST_F(RaceClocksTest, AThreadKnowsItselfAndNobodyElse) {
  EXPECT_TRUE(Knows(3, Now(3)));
  EXPECT_FALSE(Knows(3, Now(4)));
}

TEST_F(RaceClocksTest, WhoMeetsKnowsWhatCameBefore) {
  const Access before = Now(1), outside = Now(3);
  clocks_.Meet(Threads({1, 2, 65}), {}, kNowhere);
  const Access after = Now(1);
  for (const std::uint32_t thread : {1u, 2u, 65u}) EXPECT_TRUE(Knows(thread, before)) << thread;
  EXPECT_FALSE(Knows(3, before));
  EXPECT_FALSE(Knows(2, after));
  EXPECT_FALSE(Knows(2, outside));
}

TEST_F(RaceClocksTest, KnowledgeIsPassedOn) {
  const Access first = Now(1);
  clocks_.Meet(Threads({1, 2}), {}, kNowhere);
  clocks_.Meet(Threads({2, 3}), {}, kNowhere);
  EXPECT_TRUE(Knows(3, first));
  EXPECT_FALSE(Knows(1, Now(3)));
}

TEST_F(RaceClocksTest, WhoHasLeftIsKnownWhereOthersMeetForAll) {
  const Access last = Now(5);
  clocks_.Leave(5);
  clocks_.Meet(Threads({1, 2}), {}, kNowhere);
  EXPECT_FALSE(Knows(1, last));
  clocks_.Meet(Threads({1, 2}), clocks_.left(), kNowhere);
  EXPECT_TRUE(Knows(1, last));
}

TEST_F(RaceClocksTest, WhoOnlyArrivesTellsWhatItDidUntilThen) {
  const Access before = Now(1);
  clocks_.ReleaseAll(1, kPlace);
  const Access after = Now(1);
  clocks_.Meet(Threads({2}), {}, kPlace);
  EXPECT_TRUE(Knows(2, before));
  EXPECT_FALSE(Knows(2, after));
  EXPECT_FALSE(Knows(1, Now(2)));
  // This barrier is complete: later arrivals learn nothing from it.
  clocks_.Meet(Threads({3}), {}, kPlace);
  EXPECT_FALSE(Knows(3, before));
}

TEST_F(RaceClocksTest, AnAtomicTellsWhatCameBeforeTheFence) {
  const Access fenced = Now(1);
  clocks_.Fence(1);
  const Access not_fenced = Now(1);
  clocks_.ReleaseFenced(1, kPlace);
  clocks_.Acquire(2, kOtherPlace);
  EXPECT_FALSE(Knows(2, fenced)) << "of another place";
  clocks_.Acquire(2, kPlace);
  EXPECT_TRUE(Knows(2, fenced));
  EXPECT_FALSE(Knows(2, not_fenced));
}

TEST_F(RaceClocksTest, WithoutAFenceAnAtomicTellsNothing) {
  const Access before = Now(1);
  clocks_.ReleaseFenced(1, kPlace);
  clocks_.Acquire(2, kPlace);
  EXPECT_FALSE(Knows(2, before));
}

TEST_F(RaceClocksTest, APlaceKeepsWhatAllHaveTold) {
  const Access first = Now(1), second = Now(2);
  clocks_.ReleaseAll(1, kPlace);
  clocks_.ReleaseAll(2, kPlace);
  clocks_.Acquire(3, kPlace);
  EXPECT_TRUE(Knows(3, first));
  EXPECT_TRUE(Knows(3, second));
}

TEST_F(RaceClocksTest, AnotherBlockBeginsAnew) {
  const Access first = Now(1);
  clocks_.ReleaseAll(1, kPlace);
  clocks_.Leave(1);
  clocks_.Begin(70);
  clocks_.Acquire(2, kPlace);
  EXPECT_FALSE(Knows(2, first));
  EXPECT_TRUE(clocks_.left().empty());
}

}  // namespace
}  // namespace cuspan::softgpu
