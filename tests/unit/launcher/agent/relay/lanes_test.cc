// Agents with lanes, as threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "launcher/agent/mpi/lane_processes.h"
#include "launcher/agent/relay/lane_carrier.h"
#include "launcher/agent/relay/relay.h"
#include "tests/unit/launcher/agent/relay/network.h"
#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

using testing::HasSubstr;

TEST(Ranks, AgentsComeFirst) {
  const Result<Ranks> ranks = Ranks::Of(12, 3);
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(ranks->agents, 3U);
  EXPECT_EQ(ranks->lanes, 3U);
  EXPECT_FALSE(ranks->is_lane(2));
  EXPECT_TRUE(ranks->is_lane(3));
  for (std::uint32_t agent = 0; agent < 3; ++agent)
    for (std::uint32_t lane = 0; lane < 3; ++lane) {
      const std::uint32_t rank = ranks->LaneRank(agent, lane);
      EXPECT_EQ(ranks->AgentOf(rank), agent);
      EXPECT_EQ(ranks->LaneOf(rank), lane);
    }
  EXPECT_EQ(ranks->LaneRank(0, 0), 3U);
  EXPECT_EQ(ranks->LaneRank(2, 2), 11U);
}

TEST(Ranks, OneLaneIsTheAgentItself) {
  const Result<Ranks> ranks = Ranks::Of(5, 1);
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(ranks->agents, 5U);
  EXPECT_EQ(ranks->lanes, 0U);
}

TEST(Ranks, AsManyLanesOnEachHost) {
  EXPECT_THAT(Ranks::Of(7, 3).status().message(), HasSubstr("7"));
  EXPECT_FALSE(Ranks::Of(0, 1).ok());
}

constexpr std::uint32_t kLanes = 2;
constexpr Ranks kRanks{2, kLanes};

struct AgentWithLanes {
  AgentWithLanes(Network& network, std::uint32_t rank) : transport(network.Join(rank, 6)) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      lanes.emplace_back([&network, number = kRanks.LaneRank(rank, lane)] {
        const std::unique_ptr<Transport> own = network.Join(number, 6);
        const Status served = ServeAsLane(*own, kRanks);
        EXPECT_TRUE(served.ok()) << served.message();
      });
    Result<std::vector<ControlSocket>> joined = InviteLanes(*transport, kRanks);
    EXPECT_TRUE(joined.ok()) << joined.status().message();
    Result<std::unique_ptr<Carrier>> started = MakeCarrier(*transport, std::move(*joined), bell);
    EXPECT_TRUE(started.ok()) << started.status().message();
    carrier = std::move(*started);
    relay.emplace(
        *transport, *carrier, 2,
        Relay::Handlers{[](std::uint32_t, const Frame&) {},
                        [](RouteKey, const std::string& reason) { ADD_FAILURE() << reason; }});
  }
  ~AgentWithLanes() {
    carrier->End();
    for (std::thread& lane : lanes) lane.join();
  }

  std::unique_ptr<Transport> transport;
  Bell bell = NewBell();
  std::vector<std::thread> lanes;
  std::unique_ptr<Carrier> carrier;
  std::optional<Relay> relay;
};

// A process of an agent's node, and the channel to it.
struct Process {
  Process(AgentWithLanes& agent, ChannelSide side, const ChannelLayout& layout) {
    const UniqueFd fd = *Channel::Create(layout);
    const ChannelSide far =
        side == ChannelSide::kClient ? ChannelSide::kProxy : ChannelSide::kClient;
    agents_end =
        *Channel::Attach(AnotherFd(fd.get()), far, &agent.bell, OtherEnd(bell), ChannelFile::kKeep);
    channel = *Channel::Attach(AnotherFd(fd.get()), side, &bell, OtherEnd(agent.bell));
  }
  Bell bell = NewBell();
  std::shared_ptr<Channel> agents_end;
  std::unique_ptr<Channel> channel;
};

class LanesTest : public testing::Test {
 protected:
  // Copies bytes from one process to the other, in chunks of all lengths up to a slot.
  void Copy(Channel& from, Channel& to, std::uint64_t chunks) {
    const std::uint32_t slot_bytes = static_cast<std::uint32_t>(from.layout().staging_bytes);
    std::uint64_t sent = 0;
    for (std::uint64_t received = 0; received < chunks;) {
      if (sent < chunks) {
        if (const auto slot = from.TryAcquireSlot()) {
          std::memset(from.OutgoingSlot(*slot), static_cast<int>(sent), slot_bytes);
          from.Post(Chunk{1, sent, 1 + static_cast<std::uint32_t>(sent * 977 % slot_bytes), *slot});
          ++sent;
        }
      }
      head_.relay->Progress();
      worker_.relay->Progress();
      const Result<std::optional<Frame>> frame = to.Peek();
      ASSERT_TRUE(frame.ok());
      if (!frame->has_value()) continue;
      const Result<Chunk> chunk = ParseMessage<Chunk>(**frame);
      ASSERT_TRUE(chunk.ok());
      ASSERT_EQ(chunk->offset, received);
      ASSERT_EQ(chunk->bytes, 1 + received * 977 % slot_bytes);
      const std::byte* const bytes = to.IncomingSlot(chunk->slot);
      ASSERT_TRUE(std::all_of(bytes, bytes + chunk->bytes,
                              [&](std::byte b) { return b == static_cast<std::byte>(received); }));
      to.Pop();
      to.ReleaseSlot(chunk->slot);
      ++received;
    }
  }
  void Settle() {
    while (!head_.relay->quiet() || !worker_.relay->quiet()) {
      head_.relay->Progress();
      worker_.relay->Progress();
    }
  }

  Network network_;
  AgentWithLanes head_{network_, 0};
  AgentWithLanes worker_{network_, 1};
};

TEST_F(LanesTest, MoveTheBytesOfChunksBothWays) {
  const ChannelLayout layout{2048, 8, 8192};
  for (std::uint32_t session = 1; session <= 3; ++session) {
    Process client(head_, ChannelSide::kClient, layout);
    Process proxy(worker_, ChannelSide::kProxy, layout);
    const RouteKey key{session, 0};
    worker_.relay->Open(key, 0, proxy.agents_end);
    head_.relay->Open(key, 1, client.agents_end);
    Copy(*client.channel, *proxy.channel, 300);
    Copy(*proxy.channel, *client.channel, 300);
    head_.relay->Close(key);
    worker_.relay->Close(key);
    Settle();
  }
  // Waits until the lanes have cancelled their receives.
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    while (network_.Posted(rank) != 0) std::this_thread::yield();
}

TEST_F(LanesTest, ARouteMayCloseWhileItsBulkIsUnderWay) {
  const ChannelLayout layout{2048, 8, 8192};
  for (std::uint32_t session = 1; session <= 20; ++session) {
    Process client(head_, ChannelSide::kClient, layout);
    Process proxy(worker_, ChannelSide::kProxy, layout);
    const RouteKey key{session, 0};
    worker_.relay->Open(key, 0, proxy.agents_end);
    head_.relay->Open(key, 1, client.agents_end);
    for (std::uint32_t i = 0; i < session; ++i) {
      for (Process* process : {&client, &proxy})
        if (const auto slot = process->channel->TryAcquireSlot())
          process->channel->Post(Chunk{1, i, 8192, *slot});
      head_.relay->Progress();
      worker_.relay->Progress();
    }
    (session % 2 == 0 ? head_ : worker_).relay->Close(key);
    head_.relay->Progress();
    worker_.relay->Progress();
    (session % 2 == 0 ? worker_ : head_).relay->Close(key);
    Settle();
  }
}

// More commands than the size of a lane's ring. The agents end with the lanes still executing them.
TEST_F(LanesTest, TheEndIsToldToALaneThatIsBehind) {
  for (std::uint64_t command = 0; command < 50'000; ++command)
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) head_.carrier->Cancel(lane, command);
}

TEST_F(LanesTest, AChannelWhoseFileWasNotKeptIsRefused) {
  ChannelEnds ends;
  EXPECT_FALSE(head_.carrier->Attach(*ends.client).ok());
}

}  // namespace
}  // namespace cuspan
