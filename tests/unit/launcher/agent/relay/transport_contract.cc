#include "tests/unit/launcher/agent/relay/transport_contract.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <random>
#include <thread>

namespace cuspan {

using testing::ElementsAre;

std::vector<std::byte> RandomBytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(TransportContract, MessagesOfAllSizesKeepTheirOrder) {
  Start(2);
  const std::size_t most = agents_[0]->limits().message_bytes;
  std::vector<std::vector<std::byte>> messages;
  for (unsigned i = 0; i < 200; ++i)
    messages.push_back(RandomBytes(i % 3 == 0 ? most : i % 3 == 1 ? 100 : most / 7, i));
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

TEST_P(TransportContract, BulkGoesIntoReceivesInTheirOrder) {
  Start(2);
  constexpr std::size_t kMost = 3 << 20;
  const std::size_t sizes[] = {kMost, 10, 64 * 1024, 100'000, 1, 8192, kMost, 0, 70'000};
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received(std::size(sizes), std::vector<std::byte>(kMost));
  for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
    sent.push_back(RandomBytes(sizes[i], static_cast<unsigned>(i)));
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

TEST_P(TransportContract, AReceiveIsNotNamedBeforeItIsExpected) {
  Start(2);
  const std::vector<std::byte> sent = RandomBytes(1 << 20, 1);
  std::vector<std::byte> received(sent.size());
  agents_[1]->StartBulkReceive(0, 1, received, 7);
  agents_[0]->StartBulkSend(1, 1, sent, 8);
  Until([&] { return finished_[0].size() == 1; });
  EXPECT_THAT(finished_[1], ElementsAre());
  EXPECT_TRUE(agents_[1]->ExpectBulk(7));
  Until([&] { return finished_[1].size() == 1; });
  EXPECT_TRUE(sent == received);
}

TEST_P(TransportContract, TagsAndSendersAreApart) {
  Start(3);
  const std::vector<std::byte> sent[] = {RandomBytes(200'000, 0), RandomBytes(200'000, 1),
                                         RandomBytes(200'000, 2)};
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

TEST_P(TransportContract, WhatIsCancelledIsNotNamed) {
  Start(2);
  std::vector<std::byte> received[] = {RandomBytes(100, 1), RandomBytes(100, 2)};
  agents_[1]->StartBulkReceive(0, 1, received[0], 1);
  agents_[1]->StartBulkReceive(0, 1, received[1], 2);
  EXPECT_TRUE(agents_[1]->ExpectBulk(1));
  EXPECT_TRUE(agents_[1]->CancelBulkReceive(1));
  EXPECT_FALSE(agents_[1]->CancelBulkReceive(2));
  EXPECT_FALSE(agents_[1]->CancelBulkReceive(2));
  // The tag can be reused.
  const std::vector<std::byte> sent = RandomBytes(100, 3);
  agents_[1]->StartBulkReceive(0, 1, received[0], 3);
  EXPECT_TRUE(agents_[1]->ExpectBulk(3));
  agents_[0]->StartBulkSend(1, 1, sent, 4);
  Until([&] { return finished_[1].size() == 1; });
  EXPECT_THAT(finished_[1], ElementsAre(3));
  EXPECT_TRUE(received[0] == sent);
}

TEST_P(TransportContract, WhoSleepsIsWoken) {
  Start(2);
  if (agents_[1]->wake_fd() < 0) GTEST_SKIP() << "it is polled";
  // Creates the endpoints.
  ASSERT_TRUE(agents_[0]->TrySend(1, RandomBytes(10, 1)));
  ASSERT_TRUE(agents_[1]->TrySend(0, RandomBytes(10, 1)));
  Until([&] { return messages_[0].size() == 1 && messages_[1].size() == 1; });
  for (std::size_t round = 2; round < 50; ++round) {
    Until([&] { return agents_[1]->Arm() == Transport::Rest::kUntilWoken; });
    ASSERT_TRUE(agents_[0]->TrySend(1, RandomBytes(10, 2)));
    pollfd waited{agents_[1]->wake_fd(), POLLIN, 0};
    while (::poll(&waited, 1, 0) == 0) Poll(0);
    Until([&] { return messages_[1].size() == round; });
  }
}

TEST_P(TransportContract, AllEndTogether) {
  Start(3);
  ASSERT_TRUE(agents_[1]->TrySend(2, RandomBytes(10, 1)));
  ASSERT_TRUE(agents_[2]->TrySend(0, RandomBytes(10, 1)));
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

}  // namespace cuspan
