// Work in flight known to a relay, so its agent does not sleep.
#include <gtest/gtest.h>

#include "tests/unit/launcher/agent/relay/relay_fixture.h"

namespace cuspan {
namespace {

class RelayAwaitingTest : public RelayTest {};

TEST_P(RelayAwaitingTest, KnowsOfRepliesThatAreOwed) {
  auto line = NewLine(1, 0);
  EXPECT_FALSE(head_.relay.awaiting());
  line->client->Post(MemoryInfo{}, 1);
  Settle();
  EXPECT_TRUE(head_.relay.awaiting());
  EXPECT_TRUE(worker_.relay.awaiting());
  line->proxy->Reply<MemoryInfo>(1, {});
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
  EXPECT_FALSE(worker_.relay.awaiting());
}

TEST_P(RelayAwaitingTest, KnowsOfEventsThatAreToBeReached) {
  auto line = NewLine(1, 0);
  for (std::uint64_t record = 1; record <= 2; ++record)
    line->client->Post(EventRecord{7, 0, record});
  for (std::uint64_t record = 1; record <= 2; ++record) {
    Settle();
    EXPECT_TRUE(head_.relay.awaiting());
    EXPECT_TRUE(worker_.relay.awaiting());
    line->proxy->Post(EventReached{7, record, 0, 0});
  }
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
  EXPECT_FALSE(worker_.relay.awaiting());
}

TEST_P(RelayAwaitingTest, KnowsOfCopiesFromTheDevice) {
  auto line = NewLine(1, 0);
  line->client->Post(CopyFromDevice{0, 1 << 20, 100, 5});
  Settle();
  EXPECT_TRUE(head_.relay.awaiting());
  EXPECT_TRUE(worker_.relay.awaiting());
  PostChunk(*line->proxy, 5, 100, 1);
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
  EXPECT_FALSE(worker_.relay.awaiting());
  line->client->Post(CopyFromDevice{0, 1 << 20, 100, 6});
  line->proxy->Post(TransferFailed{6, 700});
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
  EXPECT_FALSE(worker_.relay.awaiting());
  line->client->Post(CopyFromDevice{0, 1 << 20, 100, 7});
  Settle();
  EXPECT_TRUE(head_.relay.awaiting());
  line->proxy->Post(ChunkInline{7, 0, 1, std::vector<std::byte>(100)});
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
  EXPECT_FALSE(worker_.relay.awaiting());
}

TEST_P(RelayAwaitingTest, AnInlineChunkComesWithTheAnswerBehindItOrAlone) {
  auto line = NewLine(1, 0);
  for (const bool answered : {true, false}) {
    line->client->Post(CopyFromDevice{0, 1 << 20, 100, 7});
    line->client->Post(MemoryInfo{}, 1);
    Settle();
    line->proxy->Post(ChunkInline{7, 0, 1, std::vector<std::byte>(100)});
    worker_.relay.Progress();
    if (answered) line->proxy->Reply<MemoryInfo>(1, {});
    std::optional<FrameHeader> chunk;
    while (!chunk) {
      Settle();
      chunk = Receive(*line->client);
    }
    EXPECT_EQ(static_cast<Op>(chunk->op), Op::kChunkInline);
    if (!answered) line->proxy->Reply<MemoryInfo>(1, {});
    Settle();
    const std::optional<FrameHeader> answer = Receive(*line->client);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->is_reply());
    EXPECT_TRUE(head_.relay.quiet());
    EXPECT_TRUE(worker_.relay.quiet());
    EXPECT_FALSE(head_.relay.HasWork());
    EXPECT_FALSE(worker_.relay.HasWork());
  }
}

TEST_P(RelayAwaitingTest, KnowsOfBulkOnItsWay) {
  auto line = NewLine(1, 0);
  network_.hold_bulk = true;
  PostChunk(*line->client, 0, 100, 1);
  Settle();
  EXPECT_TRUE(head_.relay.awaiting());
  EXPECT_TRUE(worker_.relay.awaiting());
  network_.hold_bulk = false;
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
  EXPECT_FALSE(worker_.relay.awaiting());
}

TEST_P(RelayAwaitingTest, KnowsOfBulkThatWaitsForTheOtherEndsSlots) {
  auto line = NewLine(1, 0);
  const std::uint32_t slots = line->proxy->layout().staging_slots;
  for (std::uint32_t i = 0; i <= slots; ++i) {
    PostChunk(*line->client, i, 100, 1);
    Settle();
    EXPECT_EQ(head_.relay.awaiting(), i == slots);
  }
  const Result<std::optional<Frame>> first = line->proxy->Peek();
  ASSERT_TRUE(first.ok() && first->has_value());
  const std::uint32_t slot = ParseMessage<Chunk>(**first)->slot;
  line->proxy->Pop();
  line->proxy->ReleaseSlot(slot);
  Settle();
  EXPECT_FALSE(head_.relay.awaiting());
}

INSTANTIATE_TEST_SUITE_P(Lanes, RelayAwaitingTest, testing::Values(1, 3),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace cuspan
