#include "launcher/agent/base/silence_watch.h"

#include <gmock/gmock.h>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SilenceWatchTest : public testing::Test {
 protected:
  std::vector<std::uint32_t> Tick() {
    return watch_.Tick([this](std::uint32_t rank) { return received_[rank]; });
  }
  SilenceWatch watch_{3};
  std::uint64_t received_[3] = {};
};

TEST_F(SilenceWatchTest, ReportsOnceAfterSoManyTicksWithoutAWord) {
  watch_.Add(1, 0);
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_THAT(Tick(), ElementsAre(1));
  EXPECT_THAT(Tick(), IsEmpty());
}

TEST_F(SilenceWatchTest, AWordStartsTheCountAnew) {
  watch_.Add(1, 0);
  Tick();
  Tick();
  ++received_[1];
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_THAT(Tick(), ElementsAre(1));
}

TEST_F(SilenceWatchTest, EachForItself) {
  watch_.Add(1, 0);
  watch_.Add(2, 0);
  for (int tick = 0; tick < 2; ++tick) {
    ++received_[2];
    EXPECT_THAT(Tick(), IsEmpty());
  }
  ++received_[2];
  EXPECT_THAT(Tick(), ElementsAre(1));
  EXPECT_THAT(Tick(), IsEmpty());
}

TEST_F(SilenceWatchTest, WhatWasHeardBeforeDoesNotCount) {
  received_[1] = 7;
  watch_.Add(1, 7);
  Tick();
  Tick();
  EXPECT_THAT(Tick(), ElementsAre(1));
}

TEST_F(SilenceWatchTest, KnowsEachOnce) {
  watch_.Add(1, 0);
  Tick();
  Tick();
  watch_.Add(1, 0);
  EXPECT_THAT(Tick(), ElementsAre(1));
}

}  // namespace
}  // namespace cuspan
