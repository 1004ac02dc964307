#include "launcher/agent/ucx/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <random>

#include "launcher/agent/startup.h"
#include "tests/unit/launcher/agent/meeting/meetings.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

std::vector<std::byte> Bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Agents of a run in one thread, polled in turn.
class UcxAgents : public testing::Test {
 protected:
  // `near`: shared memory is allowed.
  void Start(std::uint32_t agents, bool near) {
    std::vector<std::unique_ptr<UcxWorker>> workers;
    std::vector<Meeting::Attendee> self;
    for (std::uint32_t rank = 0; rank < agents; ++rank) {
      Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::Create();
      ASSERT_TRUE(worker.ok()) << worker.status().message();
      self.push_back(
          {"host", UcxRelease(), near ? "here" : std::to_string(rank), {*(*worker)->address()}});
      workers.push_back(std::move(*worker));
    }
    std::vector<Meeting> met = Meet(self);
    ASSERT_EQ(met.size(), agents);
    for (std::uint32_t rank = 0; rank < agents; ++rank) {
      Result<std::unique_ptr<Transport>> joined =
          UcxWorker::Join(std::move(workers[rank]), std::move(met[rank]));
      ASSERT_TRUE(joined.ok()) << joined.status().message();
      agents_.push_back(std::move(*joined));
    }
    messages_.resize(agents);
    finished_.resize(agents);
  }

  // Polls all agents until done() is true. Arrivals are in messages_ and finished_.
  template <typename Done>
  void Until(Done&& done) {
    const net::Deadline limit = InTime();
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "nothing more comes";
      for (std::uint32_t rank = 0; rank < agents_.size(); ++rank) Poll(rank);
    }
  }
  void Poll(std::uint32_t rank) {
    if (agents_[rank] == nullptr) return;
    while (const auto message = agents_[rank]->TryReceive())
      messages_[rank].emplace_back(message->rank,
                                   std::vector(message->bytes.begin(), message->bytes.end()));
    agents_[rank]->FinishedBulk(finished_[rank]);
    while (const auto lost = agents_[rank]->ConsumeLost()) lost_.emplace_back(rank, lost->rank);
  }

  using Received = std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>;
  std::vector<std::unique_ptr<Transport>> agents_;
  std::vector<Received> messages_;
  std::vector<std::vector<std::uint64_t>> finished_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lost_;  // Reporting agent, lost agent.
};

// Parameter: shared memory or not.
class UcxTransportTest : public UcxAgents, public testing::WithParamInterface<bool> {
 protected:
  void Start(std::uint32_t agents) { UcxAgents::Start(agents, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, UcxTransportTest, testing::Bool(),
                         [](const auto& near) { return near.param ? "Near" : "Apart"; });

// If memory is shared, UCX detects the end of an agent by its process. These agents are in one
// process.
class UcxAgentsApart : public UcxAgents {
 protected:
  void Start(std::uint32_t agents) { UcxAgents::Start(agents, false); }
};

TEST_P(UcxTransportTest, MessagesOfAllSizesKeepTheirOrder) {
  Start(2);
  const std::size_t most = agents_[0]->limits().message_bytes;
  std::vector<std::vector<std::byte>> messages;
  for (unsigned i = 0; i < 200; ++i)
    messages.push_back(Bytes(i % 3 == 0 ? most : i % 3 == 1 ? 100 : 9000, i));
  std::size_t sent = 0;
  Until([&] {
    while (sent < messages.size() && agents_[0]->TrySend(1, messages[sent])) ++sent;
    return messages_[1].size() == messages.size();
  });
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages_[1][i].first, 0U);
    EXPECT_TRUE(messages_[1][i].second == messages[i]) << i;
  }
}

TEST_P(UcxTransportTest, OnlySoManyMessagesAreUnderWay) {
  Start(2);
  const std::vector<std::byte> message = Bytes(60'000, 1);
  std::size_t sent = 0;
  while (sent < 100'000 && agents_[0]->TrySend(1, message)) ++sent;
  EXPECT_LT(sent, 100'000U);
  Until([&] { return messages_[1].size() == sent; });
  EXPECT_TRUE(agents_[0]->TrySend(1, message));
}

TEST_P(UcxTransportTest, BulkGoesIntoReceivesInTheirOrder) {
  Start(2);
  constexpr std::size_t kMost = 3 << 20;
  const std::size_t sizes[] = {kMost, 10, 64 * 1024, 100'000, 1, 8192, kMost, 0, 70'000};
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received(std::size(sizes), std::vector<std::byte>(kMost));
  for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
    sent.push_back(Bytes(sizes[i], static_cast<unsigned>(i)));
    agents_[1]->StartBulkReceive(0, 5, received[i], i);
    EXPECT_TRUE(agents_[1]->ExpectBulk(i));
    EXPECT_FALSE(agents_[1]->ExpectBulk(i));
  }
  for (std::uint64_t i = 0; i < std::size(sizes); ++i)
    agents_[0]->StartBulkSend(1, 5, sent[i], 100 + i);
  Until([&] {
    return finished_[0].size() == std::size(sizes) && finished_[1].size() == std::size(sizes);
  });
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    EXPECT_TRUE(std::equal(sent[i].begin(), sent[i].end(), received[i].begin())) << i;
}

TEST_P(UcxTransportTest, AReceiveIsNotNamedBeforeItIsExpected) {
  Start(2);
  const std::vector<std::byte> sent = Bytes(1 << 20, 1);
  std::vector<std::byte> received(sent.size());
  agents_[1]->StartBulkReceive(0, 1, received, 7);
  agents_[0]->StartBulkSend(1, 1, sent, 8);
  Until([&] { return finished_[0].size() == 1; });
  EXPECT_THAT(finished_[1], ElementsAre());
  EXPECT_TRUE(agents_[1]->ExpectBulk(7));
  Until([&] { return finished_[1].size() == 1; });
  EXPECT_TRUE(sent == received);
}

TEST_P(UcxTransportTest, TagsAndSendersAreApart) {
  Start(3);
  const std::vector<std::byte> sent[] = {Bytes(200'000, 0), Bytes(200'000, 1), Bytes(200'000, 2)};
  std::vector<std::byte> received[] = {sent[0], sent[0], sent[0]};
  agents_[2]->StartBulkReceive(0, 1, received[0], 10);
  agents_[2]->StartBulkReceive(0, 2, received[1], 11);
  agents_[2]->StartBulkReceive(1, 1, received[2], 12);
  for (const std::uint64_t id : {10, 11, 12}) EXPECT_TRUE(agents_[2]->ExpectBulk(id));
  agents_[1]->StartBulkSend(2, 1, sent[2], 1);
  agents_[0]->StartBulkSend(2, 2, sent[1], 2);
  agents_[0]->StartBulkSend(2, 1, sent[0], 3);
  Until([&] {
    return finished_[2].size() == 3 && finished_[1].size() == 1 && finished_[0].size() == 2;
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(received[i] == sent[i]) << i;
}

TEST_P(UcxTransportTest, WhatIsCancelledIsNotNamed) {
  Start(2);
  std::vector<std::byte> received[] = {Bytes(100, 1), Bytes(100, 2)};
  agents_[1]->StartBulkReceive(0, 1, received[0], 1);
  agents_[1]->StartBulkReceive(0, 1, received[1], 2);
  EXPECT_TRUE(agents_[1]->ExpectBulk(1));
  EXPECT_TRUE(agents_[1]->CancelBulkReceive(1));
  EXPECT_FALSE(agents_[1]->CancelBulkReceive(2));
  EXPECT_FALSE(agents_[1]->CancelBulkReceive(2));
  // The tag can be reused.
  const std::vector<std::byte> sent = Bytes(100, 3);
  agents_[1]->StartBulkReceive(0, 1, received[0], 3);
  EXPECT_TRUE(agents_[1]->ExpectBulk(3));
  agents_[0]->StartBulkSend(1, 1, sent, 4);
  Until([&] { return finished_[1].size() == 1; });
  EXPECT_THAT(finished_[1], ElementsAre(3));
  EXPECT_TRUE(received[0] == sent);
}

TEST_P(UcxTransportTest, BulkWaitsForItsReceive) {
  Start(2);
  const std::vector<std::byte> sent = Bytes(1 << 20, 1);
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
  const std::vector<std::byte> sent = Bytes(1 << 20, 1);
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

TEST_P(UcxTransportTest, WhoSleepsIsWoken) {
  Start(2);
  // Creates the endpoints.
  ASSERT_TRUE(agents_[0]->TrySend(1, Bytes(10, 1)));
  ASSERT_TRUE(agents_[1]->TrySend(0, Bytes(10, 1)));
  Until([&] { return messages_[0].size() == 1 && messages_[1].size() == 1; });
  for (std::size_t round = 2; round < 50; ++round) {
    Until([&] { return agents_[1]->Arm(); });
    ASSERT_TRUE(agents_[0]->TrySend(1, Bytes(10, 2)));
    pollfd waited{agents_[1]->wake_fd(), POLLIN, 0};
    while (::poll(&waited, 1, 0) == 0) Poll(0);
    Until([&] { return messages_[1].size() == round; });
  }
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
  ASSERT_TRUE(agents_[1]->TrySend(2, Bytes(10, 1)));
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
  ASSERT_TRUE(agents_[1]->TrySend(0, Bytes(10, 1)));
  Until([&] { return messages_[0].size() == 1; });
  EXPECT_EQ(lost_.size(), 2U);
}

TEST_P(UcxTransportTest, EndsWithWhatIsUnderWayToOneThatIsGivenUp) {
  const auto end = [this] {
    Start(2);
    const std::vector<std::byte> sent = Bytes(1 << 20, 1);
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

TEST_P(UcxTransportTest, AllEndTogether) {
  Start(3);
  ASSERT_TRUE(agents_[1]->TrySend(2, Bytes(10, 1)));
  ASSERT_TRUE(agents_[2]->TrySend(0, Bytes(10, 1)));
  Until([&] { return messages_[2].size() == 1 && messages_[0].size() == 1; });
  std::vector<std::thread> threads;
  for (std::unique_ptr<Transport>& agent : agents_)
    threads.emplace_back([&agent] {
      agent->Shutdown();
      EXPECT_FALSE(agent->ConsumeLost());
      agent.reset();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cuspan
