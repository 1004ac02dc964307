#include "launcher/agent/relay/chunk_sends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/agent/relay/carriers.h"
#include "tests/unit/launcher/agent/relay/network.h"
#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

using testing::ElementsAre;

class ChunkSendsTest : public testing::Test {
 protected:
  void Queue(ChunkSends& sends, std::uint32_t lane, std::uint32_t tag, std::uint32_t bytes,
             std::uint64_t number) {
    sends.Queue(lane, {{1, 0}, tag, memory_, {7, 0, bytes, 0}, number});
  }
  void StartAll(ChunkSends& sends) {
    while (sends.Start(now_)) {
    }
  }
  void Finish(ChunkSends& sends, std::size_t order) {
    const std::uint64_t id = carrier_.sends[order].id;
    EXPECT_EQ(table_.Extract(id).sends, &sends);
    EXPECT_TRUE(sends.Finished(id, now_));
  }
  ChannelEnds ends_;
  RecordingCarrier carrier_{2};
  BulkTable table_;
  std::shared_ptr<Attachment> memory_ =
      std::make_shared<Attachment>(carrier_, std::shared_ptr<Channel>(std::move(ends_.client)));
  LinkRate::Time now_{};
};

TEST_F(ChunkSendsTest, SomeAtATimeOnEachLane) {
  ChunkSends sends(5, 2, kTestLimits, carrier_, table_);
  for (std::uint64_t i = 1; i <= 4; ++i) Queue(sends, 0, 9, 4096, i);
  Queue(sends, 1, 9, 4096, 5);
  StartAll(sends);
  ASSERT_EQ(carrier_.sends.size(), 3U);
  EXPECT_EQ(carrier_.sends[0].agent, 5U);
  EXPECT_EQ(carrier_.sends[0].lane, 0U);
  EXPECT_EQ(carrier_.sends[1].lane, 1U);
  EXPECT_EQ(carrier_.sends[2].lane, 0U);
  Finish(sends, 1);
  EXPECT_FALSE(sends.Start(now_)) << "the other lane's turn is not this one's";
  Finish(sends, 0);
  EXPECT_TRUE(sends.Start(now_));
  EXPECT_EQ(carrier_.sends.size(), 4U);
  EXPECT_FALSE(sends.Start(now_));
}

TEST_F(ChunkSendsTest, BeginsHalfOfTheWindowAtOnce) {
  ChunkSends sends(1, 8, kTestLimits, carrier_, table_);
  for (std::uint64_t i = 1; i <= 20; ++i) Queue(sends, 0, 9, 4096, i);
  Queue(sends, 1, 9, 4096, 21);
  EXPECT_TRUE(sends.Start(now_));
  EXPECT_EQ(carrier_.sends.size(), 5U) << "four on one lane, one on the other";
  EXPECT_TRUE(sends.Start(now_));
  EXPECT_EQ(carrier_.sends.size(), 9U);
  EXPECT_FALSE(sends.Start(now_));
  for (std::size_t order = 0; order < 9; ++order) Finish(sends, order);
  EXPECT_TRUE(sends.Start(now_));
  EXPECT_EQ(carrier_.sends.size(), 13U);
}

TEST_F(ChunkSendsTest, OneAtATimeIsBegun) {
  ChunkSends sends(1, 1, kTestLimits, carrier_, table_);
  for (std::uint64_t i = 1; i <= 2; ++i) Queue(sends, 0, 9, 4096, i);
  StartAll(sends);
  EXPECT_EQ(carrier_.sends.size(), 1U);
  Finish(sends, 0);
  StartAll(sends);
  EXPECT_EQ(carrier_.sends.size(), 2U);
}

TEST_F(ChunkSendsTest, TellsWhichAnnouncementsMustHaveGone) {
  ChunkSends sends(1, 2, kTestLimits, carrier_, table_);
  for (std::uint64_t i = 1; i <= 3; ++i) Queue(sends, 0, 9, 4096, i);
  EXPECT_EQ(sends.started_announcement(), 0U);
  sends.Start(now_);
  EXPECT_EQ(sends.started_announcement(), 1U);
  sends.Start(now_);
  EXPECT_EQ(sends.started_announcement(), 2U);
}

TEST_F(ChunkSendsTest, AreBegunTogetherWhereTheTransportLikesIt) {
  Transport::Limits limits = kTestLimits;
  limits.begins_in_halves = false;
  ChunkSends sends(1, 4, limits, carrier_, table_);
  for (std::uint64_t i = 1; i <= 5; ++i) Queue(sends, 0, 9, 4096, i);
  sends.Start(now_);
  EXPECT_EQ(carrier_.sends.size(), 4U);
}

TEST_F(ChunkSendsTest, ASlowLinkHasFewBytesUnderWay) {
  ChunkSends sends(1, 64, kTestLimits, carrier_, table_);
  constexpr std::uint32_t kBytes = 128 * 1024;
  std::uint64_t number = 0;
  std::size_t finished = 0;
  // 125 MB/s.
  for (int i = 0; i < 400; ++i) {
    while (number < finished + 100) Queue(sends, 0, 9, kBytes, ++number);
    sends.Start(now_);
    now_ += std::chrono::microseconds(1049);
    Finish(sends, finished++);
  }
  sends.Start(now_);
  const std::size_t under_way = carrier_.sends.size() - finished;
  EXPECT_LE(under_way * kBytes, 125'000'000 * 0.005);
  EXPECT_GE(under_way, 2U);
}

TEST_F(ChunkSendsTest, TheLaneWithTheFewestBytesIsChosen) {
  ChunkSends sends(1, 2, kTestLimits, carrier_, table_);
  EXPECT_FALSE(sends.ChooseLane(std::vector<std::uint32_t>{0, 0}));
  EXPECT_EQ(sends.ChooseLane(std::vector<std::uint32_t>{0, 3}), 1U);
  Queue(sends, 0, 9, 100, 1);
  EXPECT_EQ(sends.ChooseLane(std::vector<std::uint32_t>{4, 4}), 1U);
  Queue(sends, 1, 9, 101, 2);
  EXPECT_EQ(sends.ChooseLane(std::vector<std::uint32_t>{4, 4}), 0U);
  EXPECT_EQ(sends.ChooseLane(std::vector<std::uint32_t>{0, 4}), 1U);
}

TEST_F(ChunkSendsTest, TheEndDropsWhatIsNotBegunAndTellsWhatIs) {
  ChunkSends sends(1, 2, kTestLimits, carrier_, table_);
  for (std::uint64_t i = 1; i <= 4; ++i) Queue(sends, 0, 9, 4096, i);
  Queue(sends, 1, 9, 4096, 5);
  Queue(sends, 0, 10, 4096, 6);
  StartAll(sends);
  EXPECT_THAT(sends.End(9), ElementsAre(2, 1));
  EXPECT_THAT(sends.End(11), ElementsAre(0, 0)) << "one of which nothing was sent";
  for (std::size_t order = 0; order < 3; ++order) Finish(sends, order);
  EXPECT_FALSE(sends.empty());
  sends.Start(now_);
  ASSERT_EQ(carrier_.sends.size(), 4U);
  EXPECT_EQ(carrier_.sends[3].tag, 10U);
  Finish(sends, 3);
  EXPECT_TRUE(sends.empty());
  EXPECT_THAT(sends.End(10), ElementsAre(1, 0));
}

}  // namespace
}  // namespace cuspan
