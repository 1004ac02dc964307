#include "interpose/client/memory/refresher.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace cuspan {
namespace {

using Clock = Refresher::Clock;

TEST(Refresher, DoesNothingUntilItIsCalled) {
  Refresher refresher([](Refresher::Time) -> std::optional<Refresher::Time> {
    ADD_FAILURE();
    return std::nullopt;
  });
}

TEST(Refresher, CallsNotBeforeItIsDueAndAsOftenAsItIsTold) {
  std::promise<void> over;
  int calls = 0;
  const auto start = Clock::now();
  Refresher refresher([&](Refresher::Time now) -> std::optional<Refresher::Time> {
    EXPECT_GE(now, start + std::chrono::milliseconds(1 + calls));
    if (++calls < 3) return start + std::chrono::milliseconds(1 + calls);
    over.set_value();
    return std::nullopt;
  });
  ASSERT_TRUE(refresher.Start());
  refresher.CallBy(start + std::chrono::milliseconds(1));
  over.get_future().wait();
  EXPECT_EQ(calls, 3);
}

TEST(Refresher, AnEarlierTimeCounts) {
  std::promise<void> called;
  Refresher refresher([&](Refresher::Time) -> std::optional<Refresher::Time> {
    called.set_value();
    return std::nullopt;
  });
  ASSERT_TRUE(refresher.Start());
  refresher.CallBy(Clock::now() + std::chrono::hours(1));
  refresher.CallBy(Clock::now());
  called.get_future().wait();
}

TEST(Refresher, RunsJobsInTheirOrder) {
  std::vector<int> run;
  std::promise<void> last;
  Refresher refresher([](Refresher::Time) { return std::nullopt; });
  ASSERT_TRUE(refresher.Start());
  for (int job = 0; job < 10; ++job) refresher.Run([&run, job] { run.push_back(job); });
  refresher.Run([&] { last.set_value(); });
  last.get_future().wait();
  EXPECT_EQ(run, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace cuspan
