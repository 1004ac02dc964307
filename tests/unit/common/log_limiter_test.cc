#include "common/log_limiter.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr LogLimiter::Clock::time_point kStart{hours(1)};

int Written(LogLimiter& limiter, std::string_view kind, int lines,
            LogLimiter::Clock::time_point when) {
  int written = 0;
  for (int i = 0; i < lines; ++i) written += limiter.Judge(kind, when).write ? 1 : 0;
  return written;
}

TEST(LogLimiter, ABurstIsWrittenAndNoMore) {
  LogLimiter limiter;
  EXPECT_EQ(Written(limiter, "a", 1000, kStart), LogLimiter::kBurst);
  EXPECT_EQ(Written(limiter, "a", 1000, kStart + LogLimiter::kEvery - milliseconds(1)), 0);
}

TEST(LogLimiter, OneComesBackAtATime) {
  LogLimiter limiter;
  Written(limiter, "a", 1000, kStart);
  for (int period = 1; period < 20; ++period)
    EXPECT_EQ(Written(limiter, "a", 1000, kStart + period * LogLimiter::kEvery), 1);
  EXPECT_EQ(Written(limiter, "a", 1000, kStart + hours(1)), LogLimiter::kBurst);
}

TEST(LogLimiter, SaysHowManyWereLeftOut) {
  LogLimiter limiter;
  for (int i = 0; i < LogLimiter::kBurst; ++i)
    EXPECT_EQ(limiter.Judge("a", kStart).left_out, 0U) << "none were";
  Written(limiter, "a", 7, kStart);
  EXPECT_EQ(limiter.Judge("a", kStart + LogLimiter::kEvery).left_out, 7U);
  EXPECT_EQ(limiter.Judge("a", kStart + 2 * LogLimiter::kEvery).left_out, 0U);
}

TEST(LogLimiter, KindsDoNotCountForEachOther) {
  LogLimiter limiter;
  Written(limiter, "a", 1000, kStart);
  EXPECT_EQ(Written(limiter, "b", 1000, kStart), LogLimiter::kBurst);
}

TEST(LogLimiter, KindsWithoutEndAreBounded) {
  LogLimiter limiter;
  int written = 0;
  for (int kind = 0; kind < 100'000; ++kind)
    written += Written(limiter, std::to_string(kind), 1, kStart);
  EXPECT_EQ(written, static_cast<int>(LogLimiter::kMaxKinds) + LogLimiter::kBurst);
  // Kinds not used for a long time make room.
  EXPECT_EQ(Written(limiter, "new", 1000, kStart + hours(1)), LogLimiter::kBurst);
}

TEST(LogLimiter, AClockThatStandsStillDoesNoHarm) {
  LogLimiter limiter;
  Written(limiter, "a", 10, kStart);
  EXPECT_FALSE(limiter.Judge("a", kStart - hours(1)).write);
}

}  // namespace
}  // namespace cuspan
