#include "interpose/client/memory/page_states.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace cuspan {
namespace {

using Access = PageStates::Access;
using Blocks = PageStates::Run;

TEST(PageStates, StartsValidAndClean) {
  PageStates states(3);
  for (std::size_t block = 0; block < 3; ++block) {
    EXPECT_TRUE(states.valid(block));
    EXPECT_EQ(states.access(block), Access::kRead) << "the first write must be noticed";
  }
  EXPECT_FALSE(states.any_dirty());
  EXPECT_TRUE(states.any_valid());
}

TEST(PageStates, AWriteIsNoticedUntilItIsPushed) {
  PageStates states(2);
  states.Written(1);
  states.Written(1);
  EXPECT_EQ(states.access(0), Access::kRead);
  EXPECT_EQ(states.access(1), Access::kWrite);
  EXPECT_TRUE(states.any_dirty());
  states.Pushed(1);
  states.Pushed(1);
  EXPECT_EQ(states.access(1), Access::kRead);
  EXPECT_FALSE(states.any_dirty());
}

TEST(PageStates, WhatADeviceMayHaveWrittenIsOutOfReach) {
  PageStates states(2);
  states.Written(0);
  states.DeviceRuns();
  EXPECT_FALSE(states.any_valid());
  EXPECT_EQ(states.access(0), Access::kNothing);
  EXPECT_TRUE(states.dirty(0)) << "what the program wrote before is not forgotten";
  states.Fetched(0, false);
  EXPECT_EQ(states.access(0), Access::kWrite);
  states.Fetched(1, false);
  EXPECT_EQ(states.access(1), Access::kRead);
}

TEST(PageStates, WhatWasSeenDuringWorkIsSeenAnewAfterASynchronisation) {
  PageStates states(3);
  states.DeviceRuns();
  states.Fetched(0, true);
  states.Fetched(1, false);
  states.Written(0);
  EXPECT_TRUE(states.unstable(0));
  EXPECT_TRUE(states.Synchronized());
  EXPECT_EQ(states.access(0), Access::kNothing);
  EXPECT_TRUE(states.dirty(0));
  EXPECT_TRUE(states.valid(1));
  EXPECT_FALSE(states.Synchronized()) << "nothing has been seen since";
  states.Fetched(0, false);
  EXPECT_FALSE(states.Synchronized());
  EXPECT_TRUE(states.valid(0));
}

TEST(PageStates, WhatIsInvalidatedIsFetchedAnew) {
  PageStates states(4);
  states.DeviceRuns();
  states.Fetched(1, true);
  states.Fetched(2, false);
  states.Written(1);
  states.Invalidate({0, 3});
  states.Invalidate({1, 1});
  EXPECT_FALSE(states.any_valid());
  EXPECT_TRUE(states.dirty(1)) << "what the program wrote is not forgotten";
  EXPECT_FALSE(states.Synchronized()) << "nothing unstable is left";
  states.Fetched(1, false);
  EXPECT_EQ(states.access(1), Access::kWrite);
}

TEST(PageStates, ReadsAheadAsLongAsTheProgramGoesOn) {
  PageStates states(200);
  states.DeviceRuns();
  std::vector<std::size_t> counts;
  for (std::size_t at = 10; at < 200;) {
    const PageStates::Run run = states.Ahead(at);
    EXPECT_EQ(run.first, at);
    for (std::size_t i = 0; i < run.count; ++i) states.Fetched(run.first + i, false);
    counts.push_back(run.count);
    at += run.count;
  }
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 4, 16, 64, 64, 41}));
}

TEST(PageStates, WritesAheadOfCleanBlocksThatAreHere) {
  PageStates states(100);
  EXPECT_EQ(states.AheadWritten(0), (Blocks{0, 1}));
  states.Written(0);
  EXPECT_EQ(states.AheadWritten(1), (Blocks{1, 4}));
  states.Written(9);
  EXPECT_EQ(states.AheadWritten(5), (Blocks{5, 4})) << "up to one that is dirty";
  states.DeviceRuns();
  states.Fetched(20, false);
  states.Fetched(21, false);
  EXPECT_EQ(states.AheadWritten(20), (Blocks{20, 1})) << "after a jump";
  EXPECT_EQ(states.AheadWritten(21), (Blocks{21, 1})) << "up to one that is not here";
}

TEST(PageStates, AJumpStartsReadingAheadAnew) {
  PageStates states(100);
  states.DeviceRuns();
  EXPECT_EQ(states.Ahead(0).count, 1U);
  states.Fetched(0, false);
  EXPECT_EQ(states.Ahead(1).count, 4U);
  EXPECT_EQ(states.Ahead(50).count, 1U);
}

TEST(PageStates, ReadingAheadStopsAtWhatIsThere) {
  PageStates states(10);
  states.DeviceRuns();
  states.Fetched(3, false);
  EXPECT_EQ(states.Ahead(1).count, 1U);
  states.Fetched(1, false);
  EXPECT_EQ(states.Ahead(2), (Blocks{2, 1}));
}

TEST(PageStates, RunsOfTheSameAccess) {
  PageStates states(6);
  states.Written(2);
  states.Written(3);
  EXPECT_EQ(states.SameAccess(0, 6), (Blocks{0, 2}));
  EXPECT_EQ(states.SameAccess(2, 6), (Blocks{2, 2}));
  EXPECT_EQ(states.SameAccess(2, 3), (Blocks{2, 1}));
  EXPECT_EQ(states.SameAccess(4, 6), (Blocks{4, 2}));
}

// The counters agree with the blocks after a random sequence of calls.
TEST(PageStates, CountersAgreeWithBlocks) {
  std::mt19937 random(7);
  PageStates states(17);
  for (int step = 0; step < 20000; ++step) {
    const std::size_t block = random() % states.size();
    switch (random() % 8) {
      case 0:
        states.DeviceRuns();
        break;
      case 1:
        states.Synchronized();
        break;
      case 2:
      case 3:
        states.Fetched(block, random() % 2 == 0);
        break;
      case 4:
      case 5:
        states.Written(block);
        break;
      default:
        states.Pushed(block);
        break;
    }
    bool any_dirty = false;
    bool any_valid = false;
    for (std::size_t i = 0; i < states.size(); ++i) {
      any_dirty = any_dirty || states.dirty(i);
      any_valid = any_valid || states.valid(i);
      ASSERT_FALSE(states.unstable(i) && !states.valid(i));
    }
    ASSERT_EQ(states.any_dirty(), any_dirty);
    ASSERT_EQ(states.any_valid(), any_valid);
  }
}

}  // namespace
}  // namespace cuspan
