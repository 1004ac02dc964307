#include "interpose/client/memory/turn_habits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Reason = TurnHabits::Reason;

constexpr std::uint64_t kBlock = 64 * 1024;
constexpr std::uint64_t kPage = 5 * kBlock;
constexpr std::uint64_t kNextPage = kPage + TurnHabits::kPageBytes;

class Habits : public testing::Test {
 protected:
  // The pages due after a turn with a touch of `page`.
  std::vector<std::uint64_t> After(std::uint64_t page) {
    habits_.Touched(page);
    return habits_.NextTurn();
  }
  // Lets the page be touched in so many turns, and returns those due after the last one.
  std::vector<std::uint64_t> AfterTurns(unsigned turns, std::uint64_t page) {
    std::vector<std::uint64_t> due;
    for (unsigned turn = 0; turn < turns; ++turn) due = After(page);
    return due;
  }

  TurnHabits habits_{kBlock};
};

TEST_F(Habits, APageIsDueAfterTouchesInAFewTurns) {
  EXPECT_THAT(AfterTurns(TurnHabits::kFewTurns - 1, kPage), IsEmpty());
  EXPECT_THAT(After(kPage), ElementsAre(kPage));
}

TEST_F(Habits, TouchesOfOneTurnCountOnce) {
  for (int touch = 0; touch < 10; ++touch) habits_.Touched(kPage);
  EXPECT_THAT(habits_.NextTurn(), IsEmpty());
}

TEST_F(Habits, ATurnWithoutATouchStartsAnew) {
  AfterTurns(TurnHabits::kFewTurns - 1, kPage);
  EXPECT_THAT(habits_.NextTurn(), IsEmpty());
  EXPECT_THAT(AfterTurns(TurnHabits::kFewTurns - 1, kPage), IsEmpty());
  EXPECT_THAT(After(kPage), ElementsAre(kPage));
}

TEST_F(Habits, AnotherPageOfTheBlockStartsAnew) {
  AfterTurns(TurnHabits::kFewTurns - 1, kPage);
  EXPECT_THAT(After(kNextPage), IsEmpty());
  EXPECT_THAT(AfterTurns(TurnHabits::kFewTurns - 1, kNextPage), ElementsAre(kNextPage));
}

TEST_F(Habits, LaterTouchesOfTheBlockInATurnDoNotCount) {
  for (unsigned turn = 0; turn < TurnHabits::kFewTurns; ++turn) {
    habits_.Touched(kPage);
    habits_.Touched(kNextPage);
    if (turn + 1 < TurnHabits::kFewTurns) {
      EXPECT_THAT(habits_.NextTurn(), IsEmpty());
    }
  }
  EXPECT_THAT(habits_.NextTurn(), ElementsAre(kPage));
}

TEST_F(Habits, AKeptPageIsNotDueAgain) {
  AfterTurns(TurnHabits::kFewTurns, kPage);
  habits_.Keep(kPage);
  EXPECT_THAT(After(kPage), IsEmpty());
}

TEST_F(Habits, AProbedPageIsDueAfterOneTurn) {
  AfterTurns(TurnHabits::kFewTurns, kPage);
  habits_.Keep(kPage);
  habits_.NextTurn();
  habits_.End(kPage, Reason::kProbe);
  EXPECT_THAT(After(kPage), ElementsAre(kPage));
}

TEST_F(Habits, AProbedPageNotTouchedStartsAnew) {
  AfterTurns(TurnHabits::kFewTurns, kPage);
  habits_.Keep(kPage);
  habits_.NextTurn();
  habits_.End(kPage, Reason::kProbe);
  EXPECT_THAT(habits_.NextTurn(), IsEmpty());
  EXPECT_THAT(After(kPage), IsEmpty());
}

TEST_F(Habits, WhatWasInVainTakesLongerAndLonger) {
  unsigned needed = TurnHabits::kFewTurns;
  for (int vain = 0; vain < 4; ++vain) {
    EXPECT_THAT(AfterTurns(needed - 1, kPage), IsEmpty()) << vain;
    EXPECT_THAT(After(kPage), ElementsAre(kPage)) << vain;
    habits_.Keep(kPage);
    habits_.End(kPage, Reason::kInVain);
    needed *= 4;
  }
}

TEST_F(Habits, MemoryWithANewUseStartsAnew) {
  AfterTurns(TurnHabits::kFewTurns, kPage);
  habits_.Keep(kPage);
  habits_.End(kPage, Reason::kInVain);
  habits_.End(kPage, Reason::kGone);
  EXPECT_THAT(AfterTurns(TurnHabits::kFewTurns, kPage), ElementsAre(kPage));
}

TEST_F(Habits, OfManyPagesTheFirstOnesAreDue) {
  std::vector<std::uint64_t> first;
  for (std::uint64_t i = 0; i < TurnHabits::kMaxWatched; ++i) first.push_back(kPage + i * kBlock);
  std::vector<std::uint64_t> due;
  for (unsigned turn = 0; turn < TurnHabits::kFewTurns; ++turn) {
    for (std::uint64_t i = 0; i < 3 * TurnHabits::kMaxWatched; ++i)
      habits_.Touched(kPage + i * kBlock);
    due = habits_.NextTurn();
  }
  EXPECT_EQ(due, first);
}

TEST_F(Habits, PagesNoLongerTouchedMakeRoom) {
  for (std::uint64_t i = 1; i <= TurnHabits::kMaxWatched; ++i) habits_.Touched(kPage + i * kBlock);
  habits_.NextTurn();
  habits_.NextTurn();
  EXPECT_THAT(AfterTurns(TurnHabits::kFewTurns, kPage), ElementsAre(kPage));
}

TEST_F(Habits, KeptPagesAreNotForgottenForOthers) {
  AfterTurns(TurnHabits::kFewTurns, kPage);
  habits_.Keep(kPage);
  for (unsigned turn = 0; turn < 3; ++turn) {
    for (std::uint64_t i = 1; i <= 3 * TurnHabits::kMaxWatched; ++i)
      habits_.Touched(kPage + i * kBlock);
    habits_.NextTurn();
  }
  habits_.End(kPage, Reason::kProbe);
  EXPECT_THAT(After(kPage), ElementsAre(kPage));
}

}  // namespace
}  // namespace cuspan
