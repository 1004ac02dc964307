// Tests ops of a stream submitted in batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/queue_ops.h"

namespace cuspan::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An op submitted with its neighbours of the same kind. They hold the stream, like collectives.
struct HeldBatchOp final : StreamOp {
  HeldBatchOp(QueueLog& log, int number) : log(&log), number(number) {}
  SubmitResult Submit() override {
    log->submitted.push_back(number);
    return SubmitResult::kHeld;
  }
  std::size_t Keep() override { return 100; }
  BatchKind Batches() const override { return BatchKind::kCollectives; }
  BatchResult SubmitBatch(std::span<StreamOp* const> batch) override {
    log->offered.push_back(batch.size());
    for (StreamOp* op : batch) log->submitted.push_back(static_cast<HeldBatchOp*>(op)->number);
    return {batch.size(), SubmitResult::kHeld};
  }
  void Drop() override { log->dropped.push_back(number); }

  QueueLog* log;
  int number;
};

class QueueBatches : public QueuesTest {
 protected:
  void AddWaiting(StreamQueue& stream, int first, int last) {
    for (int i = first; i <= last; ++i) queues.Add(stream, BatchOp(log, i, true));
  }
};

TEST_F(QueueBatches, OpsWaitForABatchUntilItIsFull) {
  StreamQueue& stream = queues.AddStream(true);
  constexpr int kFull = static_cast<int>(StreamQueues::kMaxInBatch);
  AddWaiting(stream, 1, kFull - 1);
  EXPECT_THAT(log.submitted, IsEmpty());
  EXPECT_TRUE(queues.gathering());
  AddWaiting(stream, kFull, kFull);
  ASSERT_EQ(log.submitted.size(), StreamQueues::kMaxInBatch);
  EXPECT_TRUE(std::is_sorted(log.submitted.begin(), log.submitted.end()));
  EXPECT_THAT(log.offered, ElementsAre(32, 28, 24, 20, 16, 12, 8, 4));
  EXPECT_FALSE(queues.gathering());
  EXPECT_EQ(queues.waiting_ops(), 0U);
}

TEST_F(QueueBatches, ABatchEndsWithAnOpOfAnotherKind) {
  StreamQueue& stream = queues.AddStream(true);
  AddWaiting(stream, 1, 6);
  Add(stream, 7);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(log.offered, ElementsAre(6, 2)) << "the last one of two has no neighbour left";
  EXPECT_FALSE(queues.gathering());
}

TEST_F(QueueBatches, WhatWaitsForABatchGoesWhenItIsFlushed) {
  StreamQueue& one = queues.AddStream(false);
  StreamQueue& two = queues.AddStream(false);
  AddWaiting(one, 1, 4);
  AddWaiting(two, 11, 11);
  queues.FlushGathered();
  EXPECT_EQ(log.submitted.size(), 5U);
  EXPECT_FALSE(queues.gathering());
  queues.FlushGathered();
  EXPECT_EQ(log.submitted.size(), 5U);
}

TEST_F(QueueBatches, ABatchThatIsRefusedGoesOpByOp) {
  StreamQueue& stream = queues.AddStream(true);
  log.refuse_batches = true;
  AddWaiting(stream, 1, 4);
  queues.FlushGathered();
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(log.offered, ElementsAre(4, 3, 2));
}

// A batch does not contain ops from before and after an op of the legacy stream.
TEST_F(QueueBatches, ABatchEndsWhereTheLegacyStreamComesBetween) {
  StreamQueue& stream = queues.AddStream(true);
  queues.Pause(stream);
  for (int i = 1; i <= 4; ++i) queues.Add(stream, BatchOp(log, i, false));
  Add(queues.legacy(), 5);
  for (int i = 6; i <= 9; ++i) queues.Add(stream, BatchOp(log, i, false));
  queues.Resume(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(log.offered, ElementsAre(4, 4));
}

TEST_F(QueueBatches, WhatWaitsForABatchHoldsWhatMustComeLater) {
  StreamQueue& stream = queues.AddStream(true);
  AddWaiting(stream, 1, 2);
  Add(queues.legacy(), 3);
  int called = 0;
  queues.WhenSubmitted([&] { ++called; });
  EXPECT_THAT(log.submitted, IsEmpty());
  EXPECT_EQ(called, 0);
  queues.FlushGathered();
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3));
  EXPECT_EQ(called, 1);
}

TEST_F(QueueBatches, ALostDeviceDropsWhatWaitsForABatch) {
  StreamQueue& stream = queues.AddStream(true);
  AddWaiting(stream, 1, 2);
  queues.DropAll();
  EXPECT_THAT(log.dropped, ElementsAre(1, 2));
  EXPECT_FALSE(queues.gathering());
  queues.FlushGathered();
  EXPECT_THAT(log.submitted, IsEmpty());
}

TEST_F(QueueBatches, ABatchMayHoldItsStream) {
  StreamQueue& stream = queues.AddStream(true);
  AddHeld(stream, 1);
  for (int i = 2; i <= 4; ++i) queues.Add(stream, HeldBatchOp(log, i));
  int called = 0;
  queues.WhenSubmitted([&] { ++called; });
  queues.Add(stream, BatchOp(log, 5, false));
  queues.Add(stream, HeldBatchOp(log, 6));
  Add(queues.legacy(), 7);
  EXPECT_EQ(queues.waiting_ops(), 7U);
  queues.Release(stream);
  EXPECT_THAT(log.offered, ElementsAre(3)) << "ops of another kind end a batch";
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(queues.waiting_ops(), 4U) << "the first of those that hold the stream, and 5, 6, 7";
  EXPECT_EQ(called, 0);
  queues.Release(stream);
  EXPECT_EQ(called, 1);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4, 5, 6));
  queues.Release(stream);
  EXPECT_EQ(log.submitted.back(), 7);
  EXPECT_EQ(queues.waiting_ops(), 0U);
  EXPECT_EQ(queues.waiting_bytes(), 0U);
  EXPECT_EQ(queues.taken(), 7U);
}

TEST_F(QueueBatches, ABatchThatHoldsEndsAtAnOpThatMustNotGoYet) {
  StreamQueue& stream = queues.AddStream(true);
  AddHeld(stream, 1);
  queues.Add(stream, HeldBatchOp(log, 2));
  queues.Add(stream, HeldBatchOp(log, 3));
  Add(queues.legacy(), 4);
  queues.Add(stream, HeldBatchOp(log, 5));
  auto dependency = std::make_shared<Dependency>();
  queues.Add(stream, HeldBatchOp(log, 6), dependency);
  queues.Release(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3)) << "5 comes behind the legacy stream's 4";
  queues.Release(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4, 5));
  queues.Release(stream);
  EXPECT_EQ(log.submitted.back(), 5) << "6 waits for its dependency";
  queues.DropAll();
  EXPECT_THAT(log.dropped, ElementsAre(6));
}

TEST_F(QueueBatches, ABatchEndsWhereSomebodyWaitsForWhatIsThere) {
  StreamQueue& stream = queues.AddStream(false);
  AddHeld(stream, 1);
  queues.Add(stream, HeldBatchOp(log, 2));
  queues.Add(stream, HeldBatchOp(log, 3));
  int called = 0;
  queues.WhenSubmitted([&] { ++called; });
  queues.Add(stream, HeldBatchOp(log, 4));
  queues.Release(stream);
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3));
  queues.Release(stream);
  EXPECT_EQ(called, 1) << "4 is still to be done with";
  EXPECT_THAT(log.submitted, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace cuspan::proxy
