#include "launcher/agent/ucx/ucx_transport.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>

#include "launcher/agent/startup.h"
#include "tests/unit/launcher/agent/meeting/meetings.h"
#include "tests/unit/launcher/agent/relay/transport_contract.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

// `near`: shared memory is allowed. Fewer agents on failure.
std::vector<std::unique_ptr<Transport>> UcxAgents(std::uint32_t agents, bool near) {
  std::vector<std::unique_ptr<UcxWorker>> workers;
  std::vector<Meeting::Attendee> self;
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::uint32_t rank = 0; rank < agents; ++rank) {
    Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::Create();
    if (!worker.ok()) return transports;
    self.push_back(
        {"host", UcxRelease(), near ? "here" : std::to_string(rank), {*(*worker)->address()}});
    workers.push_back(std::move(*worker));
  }
  std::vector<Meeting> met = Meet(self);
  for (std::uint32_t rank = 0; rank < met.size(); ++rank) {
    Result<std::unique_ptr<Transport>> joined =
        UcxWorker::Join(std::move(workers[rank]), std::move(met[rank]));
    if (!joined.ok()) break;
    transports.push_back(std::move(*joined));
  }
  return transports;
}

INSTANTIATE_TEST_SUITE_P(
    Ucx, TransportContract,
    testing::Values(
        TransportKind{"Near", [](std::uint32_t agents) { return UcxAgents(agents, true); }},
        TransportKind{"Apart", [](std::uint32_t agents) { return UcxAgents(agents, false); }}),
    NameOfKind);

// Parameter: shared memory or not.
class UcxTransportTest : public PolledAgents, public testing::WithParamInterface<bool> {
 protected:
  void Start(std::uint32_t agents) {
    Add(UcxAgents(agents, GetParam()));
    ASSERT_EQ(agents_.size(), agents);
  }
};
INSTANTIATE_TEST_SUITE_P(, UcxTransportTest, testing::Bool(),
                         [](const auto& near) { return near.param ? "Near" : "Apart"; });

// If memory is shared, UCX detects the end of an agent by its process. These agents are in one
// process.
class UcxAgentsApart : public PolledAgents {
 protected:
  void Start(std::uint32_t agents) {
    Add(UcxAgents(agents, false));
    ASSERT_EQ(agents_.size(), agents);
  }
};

TEST_P(UcxTransportTest, OnlySoManyMessagesAreUnderWay) {
  Start(2);
  const std::vector<std::byte> message = RandomBytes(60'000, 1);
  std::size_t sent = 0;
  while (sent < 100'000 && agents_[0]->TrySend(1, message)) ++sent;
  EXPECT_LT(sent, 100'000U);
  Until([&] { return messages_[1].size() == sent; });
  EXPECT_TRUE(agents_[0]->TrySend(1, message));
}

TEST_P(UcxTransportTest, BulkWaitsForItsReceive) {
  Start(2);
  const std::vector<std::byte> sent = RandomBytes(1 << 20, 1);
  const std::span<const std::byte> small = std::span(sent).first(10);
  agents_[0]->StartBulkSend(1, 1, sent, 1);
  agents_[0]->StartBulkSend(1, 1, small, 2);
  agents_[0]->StartBulkSend(1, 2, small, 3);
  // Later work is finished, so the earlier bulk has arrived.
  Until([&] { return std::count(finished_[0].begin(), finished_[0].end(), 3U) == 1; });
  std::vector<std::byte> first(sent.size());
  std::vector<std::byte> second(10);
  std::vector<std::byte> other(10);
  agents_[1]->StartBulkReceive(0, 2, other, 6);
  agents_[1]->StartBulkReceive(0, 1, first, 4);
  agents_[1]->StartBulkReceive(0, 1, second, 5);
  for (const std::uint64_t id : {4U, 5U, 6U}) EXPECT_TRUE(agents_[1]->ExpectBulk(id));
  Until([&] { return finished_[1].size() == 3 && finished_[0].size() == 3; });
  EXPECT_EQ(first, sent);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), second.begin()));
  EXPECT_TRUE(std::equal(small.begin(), small.end(), other.begin()));
}

TEST_P(UcxTransportTest, BulkThatIsTooLongIsDropped) {
  Start(2);
  const std::vector<std::byte> sent = RandomBytes(1 << 20, 1);
  std::vector<std::byte> small(100);
  agents_[1]->StartBulkReceive(0, 2, small, 1);
  EXPECT_TRUE(agents_[1]->ExpectBulk(1));
  agents_[0]->StartBulkSend(1, 2, sent, 2);
  Until([&] { return finished_[0].size() == 1; });
  EXPECT_THAT(finished_[1], ElementsAre());
  // The receive remains for the next one.
  agents_[0]->StartBulkSend(1, 2, std::span(sent).first(100), 3);
  Until([&] { return finished_[1].size() == 1; });
  EXPECT_TRUE(std::equal(small.begin(), small.end(), sent.begin()));
}

// The meeting has already proved it, and others may listen.
TEST_F(UcxAgentsApart, TheSecretIsNotSaid) {
  Start(2);
  AgentHello own;
  own.secret = kTestSecret;
  own.table_hash = kOpTableHash;
  own.host = "home";
  std::thread home([&] { EXPECT_FALSE(MeetAgents(*agents_[0], 2, own).ok()); });
  const Result<std::vector<std::byte>> said = agents_[1]->ReceiveWhole(0);
  EXPECT_TRUE(said.ok());
  EXPECT_EQ(std::search(said->begin(), said->end(), std::as_bytes(std::span(kTestSecret)).begin(),
                        std::as_bytes(std::span(kTestSecret)).end()),
            said->end());
  EXPECT_TRUE(agents_[1]->SendWhole(0, MakeFrame(Refused{"seen enough"})).ok());
  home.join();
}

TEST_F(UcxAgentsApart, TheEndOfAnAgentIsToldToThoseWhoTalkToIt) {
  Start(3);
  ASSERT_TRUE(agents_[1]->TrySend(2, RandomBytes(10, 1)));
  Until([&] { return messages_[2].size() == 1; });
  std::vector<std::byte> received(100'000);
  agents_[1]->StartBulkReceive(2, 1, received, 5);
  EXPECT_TRUE(agents_[1]->ExpectBulk(5));
  agents_[2].reset();
  Until([&] { return lost_.size() == 2; });
  EXPECT_THAT(lost_, UnorderedElementsAre(std::pair(0U, 2U), std::pair(1U, 2U)));
  for (const std::uint32_t rank : {0U, 1U}) {
    agents_[rank]->GiveUp(2);
    // These sends are dropped, without blocking.
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(agents_[rank]->TrySend(2, received));
    agents_[rank]->StartBulkSend(2, 1, received, 9);
  }
  EXPECT_TRUE(agents_[1]->CancelBulkReceive(5));
  Until([&] { return finished_[0].size() == 1 && finished_[1].size() == 1; });
  // The others still work.
  ASSERT_TRUE(agents_[1]->TrySend(0, RandomBytes(10, 1)));
  Until([&] { return messages_[0].size() == 1; });
  EXPECT_EQ(lost_.size(), 2U);
}

TEST_P(UcxTransportTest, EndsWithWhatIsUnderWayToOneThatIsGivenUp) {
  const auto end = [this] {
    Start(2);
    const std::vector<std::byte> sent = RandomBytes(1 << 20, 1);
    std::vector<std::byte> received(sent.size());
    agents_[1]->StartBulkReceive(0, 1, received, 1);
    agents_[0]->StartBulkReceive(1, 1, received, 2);
    for (std::uint32_t rank : {0U, 1U}) agents_[rank]->StartBulkSend(1 - rank, 1, sent, 3);
    // The other agent is silent, but has not ended.
    agents_[0]->FinishedBulk(finished_[0]);
    agents_[0]->GiveUp(1);
    agents_[0].reset();
    std::_Exit(finished_[0].empty() ? EXIT_SUCCESS : EXIT_FAILURE);
  };
  // A separate process, without UCX's warnings about unfinished requests.
  EXPECT_EXIT(end(), testing::ExitedWithCode(EXIT_SUCCESS), Not(HasSubstr("UCX ")));
}

}  // namespace
}  // namespace cuspan
