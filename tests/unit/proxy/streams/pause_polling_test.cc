#include "proxy/streams/pause_polling.h"

#include <gtest/gtest.h>

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct Pauses {
  nanoseconds polled{0};
  int slept = 0;
};
// Goes through `count` pauses of this length.
Pauses Pause(PausePolling& polling, nanoseconds length, int count) {
  Pauses pauses;
  for (int i = 0; i < count; ++i) {
    const bool polls = polling.Begin();
    if (polls) pauses.polled += std::min<nanoseconds>(length, PausePolling::kLongest);
    if (!polls || length > PausePolling::kLongest) ++pauses.slept;
    if (!polls) continue;
    if (length <= PausePolling::kLongest)
      polling.Ended();
    else
      polling.InVain();
  }
  return pauses;
}

TEST(PausePollingTest, PausesOfSomeMillisecondsEndWithoutSleep) {
  PausePolling polling(true);
  EXPECT_EQ(Pause(polling, milliseconds(5), 1000).slept, 0);
}

TEST(PausePollingTest, LongPausesTakeOnePercentOfACore) {
  PausePolling polling(true);
  const Pauses pauses = Pause(polling, milliseconds(10), 10'000);
  EXPECT_EQ(pauses.slept, 10'000);
  EXPECT_LT(pauses.polled, milliseconds(10) * 10'000 / 100);
}

TEST(PausePollingTest, LearnsThatPausesAreShorterNow) {
  PausePolling polling(true);
  Pause(polling, milliseconds(20), 1000);
  EXPECT_LE(Pause(polling, milliseconds(2), 1000).slept, 64);
  // One long pause in between costs one sleep more.
  Pause(polling, milliseconds(20), 1);
  EXPECT_EQ(Pause(polling, milliseconds(2), 100).slept, 1);
}

TEST(PausePollingTest, NeedsACore) {
  PausePolling polling(false);
  const Pauses pauses = Pause(polling, milliseconds(1), 100);
  EXPECT_EQ(pauses.slept, 100);
  EXPECT_EQ(pauses.polled, nanoseconds(0));
}

}  // namespace
}  // namespace cuspan::proxy
