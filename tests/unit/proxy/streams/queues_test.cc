// Tests the order of streams, events and the legacy default stream as defined by the CUDA
// Programming Guide. It needs no GPU: ops are numbers, logged when they are submitted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "proxy/streams/signals.h"
#include "tests/unit/proxy/queue_ops.h"

namespace cuspan::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Queues = QueuesTest;

TEST_F(Queues, AnOpWithNothingInItsWayIsSubmittedAtOnceAndNotKept) {
  StreamQueue& stream = queues.AddStream(true);
  for (int i = 0; i < 100; ++i) Add(i % 2 == 0 ? stream : queues.legacy(), i);
  EXPECT_EQ(log.submitted.size(), 100U);
  EXPECT_EQ(log.kept, 0);
  EXPECT_EQ(queues.waiting_ops(), 0U);
  EXPECT_EQ(queues.waiting_bytes(), 0U);
}

TEST_F(Queues, NothingGoesOnWhileAllAreHeld) {
  StreamQueue& first = queues.AddStream(true);
  StreamQueue& second = queues.AddStream(false);
  queues.HoldAll();
  queues.HoldAll();
  Add(first, 1);
  Add(queues.legacy(), 2);
  Add(first, 3);
  Add(second, 4);
  queues.LetAll();
  EXPECT_TRUE(log.submitted.empty());
  queues.LetAll();
  EXPECT_THAT(log.submitted, testing::UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_LT(std::find(log.submitted.begin(), log.submitted.end(), 1),
            std::find(log.submitted.begin(), log.submitted.end(), 2));
  EXPECT_LT(std::find(log.submitted.begin(), log.submitted.end(), 2),
            std::find(log.submitted.begin(), log.submitted.end(), 3));
  EXPECT_EQ(queues.waiting_ops(), 0U);
}

TEST_F(Queues, FiveThousandLaunchesBehindAHeldCopyWaitAndOtherStreamsGoOn) {
  StreamQueue& held = queues.AddStream(false);
  StreamQueue& other = queues.AddStream(false);
  AddHeld(held, 0);
  for (int i = 1; i <= 5000; ++i) Add(held, i);
  EXPECT_THAT(log.submitted, ElementsAre(0));
  EXPECT_EQ(queues.waiting_ops(), 5001U);
  for (int i = 0; i < 100; ++i) Add(other, 10'000 + i);
  EXPECT_EQ(log.submitted.size(), 101U);
  log.submitted.clear();
  queues.Release(held);
  ASSERT_EQ(log.submitted.size(), 5000U);
  for (int i = 1; i <= 5000; ++i) EXPECT_EQ(log.submitted[static_cast<std::size_t>(i - 1)], i);
  EXPECT_EQ(queues.waiting_ops(), 0U);
  EXPECT_EQ(queues.waiting_bytes(), 0U);
}

TEST_F(Queues, FiveThousandLaunchesBehindAHeldCopyOfTheLegacyStream) {
  StreamQueue& blocking = queues.AddStream(true);
  StreamQueue& free = queues.AddStream(false);
  AddHeld(queues.legacy(), 0);
  for (int i = 1; i <= 5000; ++i) Add(queues.legacy(), i);
  Add(blocking, 6000);  // Waits for all ops of the legacy stream.
  Add(free, 7000);      // Independent of the legacy stream.
  EXPECT_THAT(log.submitted, ElementsAre(0, 7000));
  log.submitted.clear();
  queues.Release(queues.legacy());
  ASSERT_EQ(log.submitted.size(), 5001U);
  for (int i = 1; i <= 5000; ++i) EXPECT_EQ(log.submitted[static_cast<std::size_t>(i - 1)], i);
  EXPECT_EQ(log.submitted.back(), 6000);
}

TEST_F(Queues, ALegacyOpWaitsForEarlierOpsOfAllBlockingStreams) {
  StreamQueue& first = queues.AddStream(true);
  StreamQueue& second = queues.AddStream(true);
  StreamQueue& free = queues.AddStream(false);
  AddHeld(first, 1);
  AddHeld(second, 2);
  AddHeld(free, 3);
  Add(queues.legacy(), 4);
  Add(first, 5);   // After the legacy op.
  Add(second, 6);  // The same.
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3));
  queues.Release(first);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3));
  queues.Release(second);
  ASSERT_EQ(log.submitted.size(), 6U);
  EXPECT_EQ(log.submitted[3], 4);  // First the legacy op; 5 and 6 in any order.
  queues.Release(free);
  EXPECT_EQ(queues.waiting_ops(), 0U);
}

TEST_F(Queues, AHeldLegacyCopyHoldsLaterBlockingOpsOnly) {
  StreamQueue& blocking = queues.AddStream(true);
  AddHeld(blocking, 1);
  AddHeld(queues.legacy(), 2);
  Add(blocking, 3);
  EXPECT_THAT(log.submitted, ElementsAre(1));
  queues.Release(blocking);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2));
  queues.Release(queues.legacy());
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3));
}

TEST_F(Queues, AWaitGoesWhenTheRecordWasSubmitted) {
  StreamQueue& recording = queues.AddStream(false);
  StreamQueue& waiting = queues.AddStream(false);
  auto record = std::make_shared<Dependency>();
  AddHeld(recording, 1);
  AddOpening(recording, 2, record);
  Add(waiting, 3);
  Add(waiting, 4, record);
  Add(waiting, 5);
  EXPECT_THAT(log.submitted, ElementsAre(1, 3));
  queues.Release(recording);
  EXPECT_THAT(log.submitted, ElementsAre(1, 3, 2, 4, 5));
  Add(waiting, 6, record);  // Stays open.
  EXPECT_EQ(log.submitted.back(), 6);
}

TEST_F(Queues, SeveralStreamsWaitForOneRecord) {
  auto record = std::make_shared<Dependency>();
  std::array<StreamQueue*, 4> streams{};
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i] = &queues.AddStream(i % 2 == 0);
    Add(*streams[i], static_cast<int>(i), record);
  }
  EXPECT_THAT(log.submitted, IsEmpty());
  AddOpening(queues.AddStream(false), 9, record);
  EXPECT_EQ(log.submitted.size(), 5U);
}

TEST_F(Queues, AChainOfRecordsAndWaitsNeedsNoDeepStack) {
  constexpr int kLinks = 200'000;
  StreamQueue& first = queues.AddStream(false);
  StreamQueue& second = queues.AddStream(false);
  auto start = std::make_shared<Dependency>();
  std::shared_ptr<Dependency> before = start;
  for (int i = 0; i < kLinks; ++i) {
    StreamQueue& stream = i % 2 == 0 ? first : second;
    auto after = std::make_shared<Dependency>();
    Add(stream, 2 * i, before);
    AddOpening(stream, 2 * i + 1, after);
    before = after;
  }
  EXPECT_THAT(log.submitted, IsEmpty());
  queues.Open(*start);
  ASSERT_EQ(log.submitted.size(), std::size_t{2 * kLinks});
  EXPECT_TRUE(std::is_sorted(log.submitted.begin(), log.submitted.end()));
}

TEST_F(Queues, ASignalHoldsItsStreamWhicheverComesFirst) {
  Signals signals;
  StreamQueue& stream = queues.AddStream(true);
  const std::shared_ptr<Dependency> late = signals.Await(7);
  ASSERT_NE(late, nullptr);
  Add(stream, 1, late);
  EXPECT_THAT(log.submitted, IsEmpty());
  const std::shared_ptr<Dependency> arrived = signals.Arrive(7);
  ASSERT_EQ(arrived, late);
  queues.Open(*arrived);
  EXPECT_THAT(log.submitted, ElementsAre(1));
  EXPECT_EQ(signals.Arrive(8), nullptr);
  EXPECT_EQ(signals.Await(8), nullptr);
  EXPECT_NE(signals.Await(8), nullptr) << "a signal is for one wait";
}

TEST_F(Queues, ASignalOnABlockingStreamHoldsLaterLegacyOps) {
  StreamQueue& stream = queues.AddStream(true);
  auto signal = std::make_shared<Dependency>();
  Add(stream, 1, signal);
  Add(queues.legacy(), 2);
  EXPECT_THAT(log.submitted, IsEmpty());
  queues.Open(*signal);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2));
}

TEST_F(Queues, WhenSubmittedIgnoresLaterOps) {
  StreamQueue& early = queues.AddStream(false);
  StreamQueue& late = queues.AddStream(false);
  int called = 0;
  queues.WhenSubmitted([&] { ++called; });
  EXPECT_EQ(called, 1) << "nothing waits";
  AddHeld(early, 1);
  queues.WhenSubmitted([&] { ++called; });
  AddHeld(late, 2);
  EXPECT_EQ(called, 1);
  queues.Release(early);
  EXPECT_EQ(called, 2);
  queues.WhenSubmitted([&] { ++called; });
  Add(late, 3);
  queues.Release(late);
  EXPECT_EQ(called, 3);
}

// Example: a stream with enough work submitted to the driver.
TEST_F(Queues, APausedStreamTakesNothingAndHoldsWhatMustComeLater) {
  StreamQueue& paused = queues.AddStream(true);
  StreamQueue& other = queues.AddStream(true);
  queues.Pause(paused);
  Add(queues.legacy(), 1);  // The paused stream is still empty.
  Add(paused, 2);
  Add(other, 3);
  Add(queues.legacy(), 4);  // After 2.
  Add(other, 5);            // After 4.
  EXPECT_THAT(log.submitted, ElementsAre(1, 3));
  queues.Resume(paused);
  EXPECT_THAT(log.submitted, ElementsAre(1, 3, 2, 4, 5));
  Add(paused, 6);
  EXPECT_EQ(log.submitted.back(), 6);
}

TEST_F(Queues, AStreamMayBePausedByItsOwnOp) {
  struct PausingOp final : StreamOp {
    PausingOp(StreamQueues& queues, StreamQueue& stream) : queues(&queues), stream(&stream) {}
    SubmitResult Submit() override {
      queues->Pause(*stream);
      return SubmitResult::kSubmitted;
    }
    StreamQueues* queues;
    StreamQueue* stream;
  };
  StreamQueue& stream = queues.AddStream(false);
  AddHeld(stream, 1);
  queues.Add(stream, PausingOp(queues, stream));
  Add(stream, 2);
  queues.Release(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1));
  queues.Resume(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2));
}

TEST_F(Queues, ARetiredStreamFinishesItsOps) {
  StreamQueue& stream = queues.AddStream(true);
  AddHeld(stream, 1);
  Add(stream, 2);
  queues.Retire(stream);
  Add(queues.legacy(), 3);
  EXPECT_THAT(log.submitted, ElementsAre(1));
  queues.Release(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3));
  queues.Retire(queues.AddStream(true));
  Add(queues.legacy(), 4);
  EXPECT_EQ(log.submitted.back(), 4);
}

TEST_F(Queues, ALostDeviceDropsEverythingInOrder) {
  StreamQueue& stream = queues.AddStream(true);
  StreamQueue& retired = queues.AddStream(true);
  auto dependency = std::make_shared<Dependency>();
  int called = 0;
  AddHeld(stream, 1);
  Add(queues.legacy(), 2);
  Add(retired, 3, dependency);
  queues.Retire(retired);
  queues.WhenSubmitted([&] { ++called; });
  queues.DropAll();
  EXPECT_THAT(log.submitted, ElementsAre(1));
  EXPECT_THAT(log.dropped, ElementsAre(1, 2, 3));
  EXPECT_EQ(called, 1);
  Add(stream, 4);
  EXPECT_EQ(log.dropped.back(), 4);
  queues.Open(*dependency);
  queues.Release(stream);
  queues.WhenSubmitted([&] { ++called; });
  EXPECT_EQ(called, 2);
  EXPECT_EQ(queues.waiting_ops(), 0U);
}

TEST_F(Queues, EmptyAroundKnowsWhatTheLegacyStreamWaitsFor) {
  StreamQueue& blocking = queues.AddStream(true);
  StreamQueue& other = queues.AddStream(true);
  StreamQueue& free = queues.AddStream(false);
  AddHeld(free, 1);
  EXPECT_TRUE(queues.EmptyAround(queues.legacy()));
  AddHeld(blocking, 2);
  EXPECT_FALSE(queues.EmptyAround(queues.legacy()));
  EXPECT_FALSE(queues.EmptyAround(blocking));
  EXPECT_TRUE(queues.EmptyAround(other));
  queues.Release(blocking);
  AddHeld(queues.legacy(), 3);
  EXPECT_FALSE(queues.EmptyAround(other));
  EXPECT_TRUE(StreamQueues::Empty(other));
}

// Submissions of random ops on random streams respect every edge.
TEST_F(Queues, RandomOpsKeepEveryEdge) {
  std::uint32_t state = 12345;
  const auto random = [&](std::uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
  };
  struct Stream {
    StreamQueue* queue;
    bool blocking;
  };
  std::vector<Stream> streams = {{&queues.legacy(), false}};
  for (int i = 0; i < 6; ++i) streams.push_back({&queues.AddStream(i % 3 != 0), i % 3 != 0});
  std::vector<std::size_t> stream_of;
  std::vector<bool> is_held;
  std::vector<std::size_t> holding;  // Streams held by their first op.
  const auto release_one = [&] {
    holding.clear();
    std::vector<int> last_begun(streams.size(), -1);
    for (const int number : log.submitted)
      last_begun[stream_of[static_cast<std::size_t>(number)]] = number;
    for (std::size_t s = 0; s < streams.size(); ++s)
      if (last_begun[s] >= 0 && is_held[static_cast<std::size_t>(last_begun[s])])
        holding.push_back(s);
    if (holding.empty()) return false;
    const std::size_t chosen = holding[random(static_cast<std::uint32_t>(holding.size()))];
    is_held[static_cast<std::size_t>(last_begun[chosen])] = false;
    queues.Release(*streams[chosen].queue);
    return true;
  };
  constexpr int kOps = 3000;
  for (int i = 0; i < kOps; ++i) {
    const std::size_t s = random(static_cast<std::uint32_t>(streams.size()));
    const bool held = random(8) == 0;
    const bool batches = !held && random(3) != 0;
    stream_of.push_back(s);
    is_held.push_back(held);
    if (held)
      AddHeld(*streams[s].queue, i);
    else if (batches)
      queues.Add(*streams[s].queue, BatchOp(log, i, random(2) == 0));
    else
      Add(*streams[s].queue, i);
    if (random(4) == 0) release_one();
    if (random(16) == 0) queues.FlushGathered();
  }
  queues.FlushGathered();
  while (release_one()) {
  }
  ASSERT_EQ(log.submitted.size(), std::size_t{kOps});
  const auto ordered = [&](std::size_t a, std::size_t b) {
    return a == b || (a == 0 && streams[b].blocking) || (b == 0 && streams[a].blocking);
  };
  // Newest op submitted so far, per stream: ops with an edge to it must not be newer.
  std::vector<int> newest(streams.size(), -1);
  for (const int number : log.submitted) {
    const std::size_t s = stream_of[static_cast<std::size_t>(number)];
    for (std::size_t other = 0; other < streams.size(); ++other) {
      if (!ordered(s, other)) continue;
      ASSERT_LT(newest[other], number);
    }
    newest[s] = std::max(newest[s], number);
  }
}

struct WorkOp final : StreamOp {
  WorkOp(QueueLog& log, int number) : log(&log), number(number) {}
  bool UsesGpu() const override { return true; }
  SubmitResult Submit() override {
    log->submitted.push_back(number);
    return SubmitResult::kSubmitted;
  }
  QueueLog* log;
  int number;
};

struct CountingGate final : WorkGate {
  bool MayStart() override { return room > 0 && room-- > 0; }
  int room = 0;
};

// If a GPU is shared, only GPU work and later ops of its stream wait for the dependency.
TEST_F(QueuesTest, TheWorkGateHoldsUpWorkAndWhatIsBehindIt) {
  CountingGate dependency;
  queues.SetWorkGate(&dependency);
  StreamQueue& stream = queues.AddStream(false);
  StreamQueue& other = queues.AddStream(false);
  Add(stream, 1);
  queues.Add(stream, WorkOp(log, 2));
  Add(stream, 3);
  Add(other, 4);
  EXPECT_EQ(log.submitted, (std::vector<int>{1, 4}));
  queues.LetWork();
  EXPECT_EQ(log.submitted, (std::vector<int>{1, 4})) << "it still says no";
  dependency.room = 1;
  queues.LetWork();
  EXPECT_EQ(log.submitted, (std::vector<int>{1, 4, 2, 3}));
  dependency.room = 1;
  queues.Add(other, WorkOp(log, 5));
  EXPECT_EQ(log.submitted.back(), 5);
}

// The dependency is queried last: permitted work is submitted at once.
TEST_F(QueuesTest, TheWorkGateIsNotAskedForWhatWaitsForSomethingElse) {
  CountingGate dependency;
  dependency.room = 1;
  queues.SetWorkGate(&dependency);
  StreamQueue& stream = queues.AddStream(false);
  queues.Pause(stream);
  queues.Add(stream, WorkOp(log, 1));
  EXPECT_EQ(dependency.room, 1);
  queues.Resume(stream);
  EXPECT_EQ(log.submitted, (std::vector<int>{1}));
}

}  // namespace
}  // namespace cuspan::proxy
