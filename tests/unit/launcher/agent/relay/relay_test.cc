#include "launcher/agent/relay/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/agent/relay/relay_fixture.h"

namespace cuspan {
namespace {

using testing::HasSubstr;

// It would block all later ones for ever.
TEST_P(RelayTest, AMessageThatFitsNoFrameIsNotSent) {
  head_.relay.SendControl(1, RemoteLost{1, 0, std::string(kMaxFrameBytes, 'x')});
  head_.relay.SendControl(1, RemoteClose{1, 0});
  Settle();
  EXPECT_THAT(worker_.controls, testing::ElementsAre(Op::kRemoteClose));
}

TEST_P(RelayTest, SignsOfLifeGoAheadOfManyMessages) {
  EXPECT_FALSE(head_.relay.congested());
  for (std::uint32_t device = 0; device < 300; ++device)
    head_.relay.SendControl(1, RemoteClose{1, device});
  EXPECT_TRUE(head_.relay.congested()) << "sessions are to hold back";
  head_.relay.SendControl(1, AgentAlive{});
  Settle();
  EXPECT_FALSE(head_.relay.congested());
  ASSERT_EQ(worker_.controls.size(), 301U);
  EXPECT_EQ(worker_.controls.front(), Op::kAgentAlive);
}

TEST_P(RelayTest, FramesKeepOrderHeaderAndPayload) {
  auto line = NewLine(1, 0);
  std::vector<std::uint64_t> sequences;
  for (std::uint32_t i = 0; i < 1000; ++i)
    sequences.push_back(line->client->Post(Memset{2, i, 3, 4, 5}, i));
  Settle();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const Result<std::optional<Frame>> frame = line->proxy->Peek();
    ASSERT_TRUE(frame.ok() && frame->has_value());
    EXPECT_EQ((*frame)->header.request, i);
    EXPECT_EQ((*frame)->header.sequence, sequences[i]);
    EXPECT_EQ(ParseMessage<Memset>(**frame)->destination, i);
    line->proxy->Pop();
  }
  line->proxy->Reply<MemoryInfo>(42, {0, 1, 2});
  line->proxy->Post(EventReached{1, 2, 0, 3});
  Settle();
  const std::optional<FrameHeader> reply = Receive(*line->client);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->is_reply());
  EXPECT_EQ(reply->request, 42U);
  EXPECT_EQ(Receive(*line->client)->op, static_cast<std::uint16_t>(Op::kEventReached));
  EXPECT_FALSE(Receive(*line->client));
}

TEST_P(RelayTest, ChunksArriveInTheOtherChannelsSlotsAndFreeTheirOwn) {
  auto line = NewLine(1, 0);
  std::uint64_t received = 0;
  for (std::uint32_t i = 0; i < 50; ++i) {
    PostChunk(*line->client, i, kStagingBytes - i, static_cast<std::uint8_t>(i));
    Settle();
    const Result<std::optional<Frame>> frame = line->proxy->Peek();
    ASSERT_TRUE(frame.ok() && frame->has_value());
    const Result<Chunk> chunk = ParseMessage<Chunk>(**frame);
    ASSERT_TRUE(chunk.ok());
    EXPECT_EQ(chunk->transfer, 7U);
    EXPECT_EQ(chunk->offset, i);
    EXPECT_EQ(chunk->bytes, kStagingBytes - i);
    const std::byte* bytes = line->proxy->IncomingSlot(chunk->slot);
    EXPECT_TRUE(std::all_of(bytes, bytes + chunk->bytes,
                            [i](std::byte b) { return b == static_cast<std::byte>(i); }));
    line->proxy->Pop();
    line->proxy->ReleaseSlot(chunk->slot);
    received += chunk->bytes;
  }
  EXPECT_GT(received, 0U);
}

TEST_P(RelayTest, WithOneSlotItComesFreeWhenItsBytesHaveGoneAllTheWay) {
  auto line = NewLine(1, 0, {4096, 1, kStagingBytes});
  for (std::uint32_t i = 0; i < 3; ++i) {
    PostChunk(*line->client, i, 100, 1);
    Settle();
    const Result<std::optional<Frame>> frame = line->proxy->Peek();
    ASSERT_TRUE(frame.ok() && frame->has_value());
    const std::uint32_t slot = ParseMessage<Chunk>(**frame)->slot;
    line->proxy->Pop();
    EXPECT_FALSE(line->client->TryAcquireSlot()) << "the bytes were sent, but nobody has read them";
    line->proxy->ReleaseSlot(slot);
    Settle();
  }
  EXPECT_TRUE(line->client->TryAcquireSlot());
}

TEST_P(RelayTest, FramesOvertakeChunksButChunksNoFrames) {
  auto line = NewLine(1, 0);
  network_.hold_bulk = true;
  line->client->Post(Memset{}, 1);
  PostChunk(*line->client, 0, 100, 1);
  line->client->Post(Memset{}, 2);
  Settle();
  EXPECT_EQ(Receive(*line->proxy)->request, 1U);
  EXPECT_EQ(Receive(*line->proxy)->request, 2U);
  EXPECT_FALSE(Receive(*line->proxy));
  network_.hold_bulk = false;
  Settle();
  EXPECT_EQ(Receive(*line->proxy)->op, static_cast<std::uint16_t>(Op::kChunk));
}

TEST_P(RelayTest, AChannelThatNobodyReadsHoldsUpNothingElse) {
  auto stuck = NewLine(1, 0);
  auto other = NewLine(1, 1);
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(Op::kCopyToDeviceInline);
  const std::vector<std::byte> payload(30'000);
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  std::size_t posted = 0;
  while (stuck->client->TryPost(header, payload)) {
    ++posted;
    Settle();
  }
  // At most two rings and one window of 512 KiB are buffered.
  EXPECT_LE(posted * payload.size(), 2 * 4096 * kSlotBytes + 512 * 1024);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    other->client->Post(Memset{}, i);
    Settle();
    ASSERT_EQ(Receive(*other->proxy)->request, i);
  }
  // Once it is read, everything arrives.
  std::size_t read = 0;
  while (Receive(*stuck->proxy)) {
    ++read;
    stuck->proxy->Flush();
    Settle();
  }
  EXPECT_EQ(read, posted);
}

TEST_P(RelayTest, ChunksThatNobodyTakesHoldUpNoOthers) {
  auto stuck = NewLine(1, 0);
  auto other = NewLine(1, 1);
  std::size_t posted = 0;
  while (const std::optional<std::uint32_t> slot = stuck->client->TryAcquireSlot()) {
    stuck->client->Post(Chunk{1, posted++, 10, *slot});
    Settle();
  }
  EXPECT_EQ(posted, 8U);  // Four slots at each end.
  for (int i = 0; i < 20; ++i) {
    PostChunk(*other->client, 0, 100, 1);
    other->client->Post(Memset{}, 5);
    stuck->client->Post(Memset{}, 6);
    Settle();
    // The frame may arrive before the chunk.
    std::optional<std::uint32_t> slot;
    int memsets = 0;
    for (int k = 0; k < 2; ++k) {
      const Result<std::optional<Frame>> frame = other->proxy->Peek();
      ASSERT_TRUE(frame.ok() && frame->has_value());
      if ((*frame)->op() == Op::kChunk)
        slot = ParseMessage<Chunk>(**frame)->slot;
      else
        ++memsets;
      other->proxy->Pop();
    }
    ASSERT_TRUE(slot);
    EXPECT_EQ(memsets, 1);
    other->proxy->ReleaseSlot(*slot);
  }
}

TEST_P(RelayTest, AWrongChunkBreaksItsRouteAlone) {
  const std::vector<Chunk> wrong = {{1, 0, 10, 4}, {1, 0, 10, 64}, {1, 0, kStagingBytes + 1, 0}};
  auto good = NewLine(9, 9);
  std::uint32_t session = 1;
  for (const Chunk& chunk : wrong) {
    auto line = NewLine(session, 0);
    line->client->Post(chunk);
    Settle();
    ASSERT_EQ(head_.broken.size(), session);
    EXPECT_EQ(head_.broken.back().first, line->key);
    EXPECT_THAT(head_.broken.back().second, HasSubstr("staging slot"));
    ++session;
  }
  auto twice = NewLine(session, 0);
  network_.hold_bulk = true;
  twice->client->Post(Chunk{1, 0, 10, 0});
  twice->client->Post(Chunk{1, 0, 10, 0});
  Settle();
  EXPECT_EQ(head_.broken.size(), session);
  network_.hold_bulk = false;
  good->client->Post(Memset{}, 3);
  Settle();
  EXPECT_EQ(Receive(*good->proxy)->request, 3U);
}

TEST_P(RelayTest, ARouteMayCloseWhileItsBulkIsUnderWay) {
  auto line = NewLine(1, 0);
  network_.hold_bulk = true;
  for (int i = 0; i < 4; ++i) PostChunk(*line->client, 0, 100, 1);
  PostChunk(*NewLine(1, 1)->client, 0, 100, 1);
  Settle();
  head_.relay.Close(line->key);
  worker_.relay.Close(line->key);
  line.reset();
  // The same device is opened again and receives no old chunks in flight.
  auto again = NewLine(1, 0);
  network_.hold_bulk = false;
  Settle();
  EXPECT_FALSE(Receive(*again->proxy));
  EXPECT_TRUE(head_.relay.quiet());
  EXPECT_TRUE(worker_.relay.quiet());
  PostChunk(*again->client, 5, 100, 2);
  Settle();
  EXPECT_EQ(Receive(*again->proxy)->op, static_cast<std::uint16_t>(Op::kChunk));
}

TEST_P(RelayTest, AChunkForARouteThatIsGoneIsTakenAndDropped) {
  auto line = NewLine(1, 0);
  worker_.relay.Close(line->key);
  PostChunk(*line->client, 0, 100, 1);
  line->client->Post(Memset{}, 1);
  Settle();
  EXPECT_FALSE(worker_.relay.quiet()) << "more may come, until the other end has closed it too";
  head_.relay.Close(line->key);
  Settle();
  EXPECT_TRUE(head_.relay.quiet());
  EXPECT_TRUE(worker_.relay.quiet());
}

TEST_P(RelayTest, WaitsForATransportThatIsBusy) {
  auto line = NewLine(1, 0);
  network_.hold_messages = true;
  std::size_t posted = 0;
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(Op::kDeviceSynchronize);
  for (; posted < 100'000 && line->client->TryPost(header, {}); ++posted) Settle();
  head_.relay.SendControl(1, AgentShutdown{});
  Settle();
  network_.hold_messages = false;
  std::size_t read = 0;
  do {
    Settle();
    while (Receive(*line->proxy)) ++read;
    line->proxy->Flush();
  } while (head_.relay.Progress() | worker_.relay.Progress() | line->proxy->HasFrame());
  EXPECT_EQ(read, posted);
  EXPECT_THAT(worker_.controls, testing::ElementsAre(Op::kAgentShutdown));
}

TEST_P(RelayTest, SurvivesAnyBytesFromAnotherAgent) {
  auto line = NewLine(1, 0);
  std::vector<std::byte> message;
  unsigned state = 12345;
  for (int round = 0; round < 2000; ++round) {
    message.resize(round % 200);
    for (std::byte& byte : message)
      byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
    if (message.size() > sizeof(RouteKey) + 4) {
      // Usually a valid header, to reach the code after its check.
      const RouteKey key{static_cast<std::uint32_t>(round % 3), 0};
      std::memcpy(message.data(), &key, sizeof key);
      const std::uint32_t start = kFrameMagic | kFrameVersion << 16;
      std::memcpy(message.data() + sizeof key, &start, sizeof start);
    }
    network_.Inject(0, 1, message);
    worker_.relay.Progress();
    while (Receive(*line->proxy)) {
    }
  }
}

// All receives posted ahead are gone in the end, used or not.
TEST_P(RelayTest, NothingIsPostedForARouteThatBothHaveClosed) {
  auto line = NewLine(1, 0);
  EXPECT_EQ(network_.Posted(0), 4U);
  EXPECT_EQ(network_.Posted(1), 4U);
  for (int i = 0; i < 3; ++i) PostChunk(*line->client, 0, 100, 1);
  Settle();
  PostChunk(*line->proxy, 0, 100, 1);
  network_.hold_bulk = true;
  head_.relay.Progress();
  worker_.relay.Progress();
  head_.relay.Close(line->key);
  worker_.relay.Close(line->key);
  network_.hold_bulk = false;
  Settle();
  EXPECT_EQ(network_.Posted(0), 0U);
  EXPECT_EQ(network_.Posted(1), 0U);
  EXPECT_TRUE(head_.relay.quiet());
  EXPECT_TRUE(worker_.relay.quiet());
  EXPECT_TRUE(head_.carrier.attached.empty());
  EXPECT_TRUE(worker_.carrier.attached.empty());
}

TEST_P(RelayTest, ARouteThatWasNeverOpenAtTheOtherEndEnds) {
  auto line = NewLine(1, 0);
  Bell bell = *Bell::Create();
  std::shared_ptr<Channel> channel;
  const auto proxy = Line::Make(Small(), ChannelSide::kProxy, bell, worker_, channel);
  worker_.relay.Open({1, 5}, 0, channel);
  Settle();
  worker_.relay.Close({1, 5});
  Settle();
  EXPECT_TRUE(worker_.relay.quiet());
  EXPECT_EQ(network_.Posted(1), 4U);
}

TEST_P(RelayTest, ChunksOfBothDirectionsAndManyRoutesKeepTheirOrder) {
  std::vector<std::unique_ptr<Line>> lines;
  for (std::uint32_t device = 0; device < 5; ++device) lines.push_back(NewLine(1, device));
  struct Side {
    Channel* from;
    Channel* to;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  std::vector<Side> sides;
  for (const auto& line : lines) {
    sides.push_back({line->client.get(), line->proxy.get()});
    sides.push_back({line->proxy.get(), line->client.get()});
  }
  constexpr std::uint64_t kChunks = 200;
  unsigned state = 99;
  for (bool more = true; more;) {
    more = false;
    for (Side& side : sides) {
      state = state * 1664525 + 1013904223;
      if ((state >> 16) % 3 != 0 && side.sent < kChunks) {
        if (const auto slot = side.from->TryAcquireSlot()) {
          const std::uint32_t bytes = 1 + (state >> 8) % kStagingBytes;
          std::memset(side.from->OutgoingSlot(*slot), static_cast<int>(side.sent), bytes);
          side.from->Post(Chunk{7, side.sent++, bytes, *slot});
        }
      }
      const Result<std::optional<Frame>> frame = side.to->Peek();
      ASSERT_TRUE(frame.ok());
      if (frame->has_value()) {
        const Result<Chunk> chunk = ParseMessage<Chunk>(**frame);
        ASSERT_TRUE(chunk.ok());
        EXPECT_EQ(chunk->offset, side.received);
        const std::byte* bytes = side.to->IncomingSlot(chunk->slot);
        EXPECT_TRUE(std::all_of(bytes, bytes + chunk->bytes, [&](std::byte b) {
          return b == static_cast<std::byte>(side.received);
        }));
        ++side.received;
        side.to->Pop();
        side.to->ReleaseSlot(chunk->slot);
      }
      more = more || side.received != kChunks;
    }
    head_.relay.Progress();
    worker_.relay.Progress();
  }
  EXPECT_TRUE(head_.broken.empty());
  EXPECT_TRUE(worker_.broken.empty());
}

TEST_P(RelayTest, LargerStagingBuffersThanTheOtherNodesAreRefused) {
  const RouteKey key{1, 0};
  Bell bell = *Bell::Create();
  std::shared_ptr<Channel> at_head;
  std::shared_ptr<Channel> at_worker;
  const auto client =
      Line::Make({4096, 4, 2 * kStagingBytes}, ChannelSide::kClient, bell, head_, at_head);
  const auto proxy = Line::Make(Small(), ChannelSide::kProxy, bell, worker_, at_worker);
  worker_.relay.Open(key, 0, at_worker);
  head_.relay.Open(key, 1, at_head);
  Settle();
  PostChunk(*client, 0, kStagingBytes + 1, 1);
  Settle();
  ASSERT_EQ(head_.broken.size(), 1U);
  EXPECT_THAT(head_.broken.front().second, HasSubstr("CUSPAN_STAGING_BYTES"));
}

TEST_P(RelayTest, AnAgentThatIsGivenUpIsWrittenToAndReadNoMore) {
  auto line = NewLine(1, 0);
  line->client->Post(Memset{2, 0, 3, 4, 5}, 1);
  PostChunk(*line->client, 0, 100, 1);
  network_.hold_messages = true;
  network_.hold_bulk = true;
  Settle();
  const std::uint64_t message_count = head_.relay.message_count(1);
  head_.relay.GiveUp(1);
  EXPECT_TRUE(head_.relay.gave_up(1));
  head_.relay.Close(line->key);
  head_.relay.SendControl(1, RemoteClose{1, 0});
  // Work waiting for the lost agent does not keep this one from ending.
  EXPECT_TRUE(head_.relay.quiet());
  // The lost agent returns and sends messages.
  network_.hold_messages = false;
  network_.hold_bulk = false;
  worker_.relay.SendControl(0, RemoteLost{1, 0, "late"});
  head_.controls.clear();
  worker_.controls.clear();
  Settle();
  EXPECT_TRUE(head_.controls.empty());
  EXPECT_TRUE(worker_.controls.empty());
  EXPECT_GT(head_.relay.message_count(1), message_count);
  EXPECT_TRUE(head_.relay.quiet());
}

INSTANTIATE_TEST_SUITE_P(Lanes, RelayTest, testing::Values(1, 3),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace cuspan
