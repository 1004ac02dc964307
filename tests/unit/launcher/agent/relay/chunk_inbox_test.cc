#include "launcher/agent/relay/chunk_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/agent/relay/carriers.h"
#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kAgent = 3;
constexpr std::uint32_t kTag = 12;

class ChunkInboxTest : public testing::Test {
 protected:
  std::unique_ptr<ChunkInbox> Make(std::uint32_t lanes) {
    carrier_ = std::make_unique<RecordingCarrier>(lanes);
    memory_ = std::make_shared<Attachment>(*carrier_, channel_);
    return std::make_unique<ChunkInbox>(RouteKey{1, 0}, kAgent, kTag, memory_, *carrier_, table_);
  }
  Status Announce(ChunkInbox& inbox, std::uint32_t lane, std::uint64_t offset,
                  std::uint32_t bytes = 100) {
    return inbox.Announce(FrameHeader{}, {kTag, lane, 7, offset, bytes});
  }
  void Receive(ChunkInbox& inbox, std::size_t order) {
    const std::uint64_t id = carrier_->receives[order].id;
    EXPECT_EQ(table_.Extract(id).inbox, &inbox);
    inbox.Received(id);
  }
  ChannelEnds ends_;  // Ends with four slots.
  std::shared_ptr<Channel> channel_ = std::move(ends_.client);
  std::unique_ptr<RecordingCarrier> carrier_;
  std::shared_ptr<Attachment> memory_;
  BulkTable table_;
};

TEST_F(ChunkInboxTest, EachFreeSlotHasAReceive) {
  auto inbox = Make(1);
  EXPECT_TRUE(inbox->CanPost());
  EXPECT_TRUE(inbox->PostAhead());
  ASSERT_EQ(carrier_->receives.size(), 4U);
  EXPECT_EQ(carrier_->receives[0].agent, kAgent);
  EXPECT_EQ(carrier_->receives[0].tag, kTag);
  EXPECT_EQ(carrier_->receives[0].bytes, 4096U);
  EXPECT_FALSE(inbox->CanPost());
  EXPECT_FALSE(inbox->PostAhead());
  EXPECT_FALSE(inbox->ConsumeGrants(5));
  EXPECT_THAT(*inbox->ConsumeGrants(4), ElementsAre(4));
  EXPECT_FALSE(inbox->ConsumeGrants(1));
  EXPECT_THAT(*inbox->ConsumeGrants(0), ElementsAre(0)) << "credit for frames goes the same way";
}

TEST_F(ChunkInboxTest, LanesHaveAsMany) {
  auto inbox = Make(3);
  inbox->PostAhead();
  EXPECT_THAT(*inbox->ConsumeGrants(1), ElementsAre(2, 1, 1));
}

TEST_F(ChunkInboxTest, ChunksComeInTheOrderOfTheirAnnouncements) {
  auto inbox = Make(2);
  inbox->PostAhead();
  // The second lane is faster: its bytes arrive before their announcement.
  Receive(*inbox, 1);
  ASSERT_TRUE(Announce(*inbox, 0, 0).ok());
  ASSERT_TRUE(Announce(*inbox, 1, 100).ok());
  EXPECT_THAT(carrier_->expected, ElementsAre(carrier_->receives[0].id));
  EXPECT_EQ(inbox->Front(), nullptr);
  Receive(*inbox, 0);
  ASSERT_NE(inbox->Front(), nullptr);
  EXPECT_EQ(inbox->Front()->chunk.offset, 0U);
  EXPECT_EQ(inbox->Front()->chunk.slot, carrier_->receives[0].slot);
  inbox->PopFront();
  ASSERT_NE(inbox->Front(), nullptr);
  EXPECT_EQ(inbox->Front()->chunk.offset, 100U);
  EXPECT_EQ(inbox->Front()->chunk.slot, carrier_->receives[1].slot);
  inbox->PopFront();
  EXPECT_EQ(inbox->Front(), nullptr);
}

TEST_F(ChunkInboxTest, ASlotThatComesFreeHasAReceiveAgain) {
  auto inbox = Make(1);
  inbox->PostAhead();
  ASSERT_TRUE(Announce(*inbox, 0, 0).ok());
  Receive(*inbox, 0);
  const std::uint32_t slot = inbox->Front()->chunk.slot;
  inbox->PopFront();
  EXPECT_FALSE(inbox->PostAhead()) << "the proxy has it";
  ends_.proxy->ReleaseSlot(slot);
  EXPECT_TRUE(inbox->CanPost());
  EXPECT_TRUE(inbox->PostAhead());
  EXPECT_EQ(carrier_->receives.back().slot, slot);
}

TEST_F(ChunkInboxTest, WhatHasNoReceiveIsRefused) {
  auto inbox = Make(2);
  EXPECT_THAT(Announce(*inbox, 0, 0).message(), HasSubstr("without a free slot"));
  inbox->PostAhead();
  EXPECT_THAT(Announce(*inbox, 2, 0).message(), HasSubstr("without a free slot"));
  EXPECT_THAT(Announce(*inbox, 0, 0, 4097).message(), HasSubstr("4097"));
  EXPECT_TRUE(Announce(*inbox, 0, 0, 4096).ok());
  EXPECT_TRUE(Announce(*inbox, 0, 0).ok());
  EXPECT_THAT(Announce(*inbox, 0, 0).message(), HasSubstr("without a free slot"));
}

TEST_F(ChunkInboxTest, AtItsEndReceivesAreAwaitedOrCancelled) {
  auto inbox = Make(2);
  inbox->PostAhead();
  ASSERT_TRUE(Announce(*inbox, 0, 0).ok());
  inbox->Shut();
  EXPECT_FALSE(inbox->over()) << "the other end may still send";
  inbox->End({1, 1});
  EXPECT_THAT(carrier_->cancelled,
              testing::UnorderedElementsAre(carrier_->receives[2].id, carrier_->receives[3].id));
  EXPECT_FALSE(inbox->over());
  Receive(*inbox, 0);
  Receive(*inbox, 1);
  EXPECT_TRUE(inbox->over());
  EXPECT_EQ(inbox->Front(), nullptr);
  EXPECT_FALSE(inbox->PostAhead());
}

TEST_F(ChunkInboxTest, MayEndBeforeItIsShut) {
  auto inbox = Make(1);
  inbox->PostAhead();
  inbox->End({0});
  EXPECT_EQ(carrier_->cancelled.size(), 4U);
  EXPECT_FALSE(inbox->over());
  EXPECT_TRUE(Announce(*inbox, 0, 0).ok()) << "late news of what was given up";
  EXPECT_EQ(inbox->Front(), nullptr);
  inbox->Shut();
  EXPECT_TRUE(inbox->over());
}

}  // namespace
}  // namespace cuspan
