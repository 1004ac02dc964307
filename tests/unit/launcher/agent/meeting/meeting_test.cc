#include "launcher/agent/meeting/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <random>

#include "agents.pb.h"
#include "ops.gen.h"
#include "tests/unit/launcher/agent/meeting/meetings.h"

namespace cuspan {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string TextOf(const Meeting::Blob& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

// The Join message of an agent of this build, with test values for some fields.
control::Join OwnJoin(std::uint32_t rank = 1) {
  control::Join join;
  join.set_version("1.0-test");
  join.set_table_hash(kOpTableHash);
  join.set_rank(rank);
  join.mutable_self()->set_host("elsewhere");
  join.mutable_self()->add_addresses()->set_near("x");
  return join;
}

class MeetingTest : public testing::Test {
 protected:
  UniqueFd Connect() {
    Result<UniqueFd> connected = net::Connect(host_.near(), host_.never(), InTime());
    EXPECT_TRUE(connected.ok()) << connected.status().message();
    return std::move(*connected);
  }
  UniqueFd Say(const void* data, std::size_t bytes) {
    UniqueFd fd = Connect();
    EXPECT_EQ(::send(fd.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    return fd;
  }
  bool Read(const UniqueFd& fd, void* data, std::size_t bytes) {
    return net::ReceiveAll(fd.get(), data, bytes, host_.never(), InTime()).ok();
  }
  // Connects, and proves knowledge of `secret` as `side` for the received challenge.
  UniqueFd Prove(const Key128& secret, Side side = Side::kWorker, std::uint32_t rank = 1) {
    UniqueFd fd = Connect();
    Meeting::Challenge challenge{};
    EXPECT_TRUE(Read(fd, &challenge, sizeof challenge));
    EXPECT_EQ(challenge.format, Meeting::kFormat);
    Meeting::Response response{Meeting::kFormat, rank, RandomNonce(), {}};
    response.proof = *cuspan::Prove(secret, side, challenge.nonce, response.nonce, rank);
    EXPECT_TRUE(net::SendAll(fd.get(), &response, sizeof response, host_.never(), InTime()).ok());
    return fd;
  }
  // Connects as an agent of this run and sends `join`.
  UniqueFd Join(const control::Join& join) {
    UniqueFd fd = Prove(kTestSecret, Side::kWorker, join.rank());
    Proof proof{};
    EXPECT_TRUE(Read(fd, &proof, sizeof proof));
    const std::string text = join.SerializeAsString();
    const auto bytes = static_cast<std::uint32_t>(text.size());
    EXPECT_TRUE(net::SendAll(fd.get(), &bytes, sizeof bytes, host_.never(), InTime()).ok());
    EXPECT_TRUE(net::SendAll(fd.get(), text.data(), bytes, host_.never(), InTime()).ok());
    return fd;
  }
  control::Answer AnswerTo(const UniqueFd& fd) {
    std::uint32_t bytes = 0;
    EXPECT_TRUE(Read(fd, &bytes, sizeof bytes));
    std::string text(bytes, 0);
    EXPECT_TRUE(Read(fd, text.data(), bytes));
    control::Answer answer;
    EXPECT_TRUE(answer.ParseFromString(text));
    return answer;
  }
  // Closed without any reply, not even a reason.
  void ExpectHungUp(const UniqueFd& fd) {
    char byte = 0;
    EXPECT_FALSE(Read(fd, &byte, 1));
  }
  std::future<Result<Meeting>> Attend(std::uint32_t rank) {
    return std::async(std::launch::async, [this, rank] {
      return Meeting::Attend(host_.places(), kTestSecret, rank, AgentAt("away"), InTime());
    });
  }
  std::future<Result<Meeting>> Hold(std::uint32_t agents) {
    return std::async(std::launch::async,
                      [this, agents] { return host_.Hold(agents, AgentAt("home")); });
  }

  Host host_;
};

TEST_F(MeetingTest, AllLearnWhereAllAre) {
  std::vector<Meeting> met = Meet({AgentAt("a"), AgentAt("bb"), AgentAt("")});
  ASSERT_EQ(met.size(), 3U);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(met[rank].rank(), rank);
    ASSERT_EQ(met[rank].size(), 3U);
    EXPECT_EQ(TextOf(met[rank].AddressOf(0, 0)), "a");
    EXPECT_EQ(TextOf(met[rank].AddressOf(1, 0)), "bb");
    EXPECT_EQ(TextOf(met[rank].AddressOf(2, 0)), "");
    EXPECT_EQ(met[rank].token(), met[0].token());
  }
  EXPECT_NE(met[0].token(), 0U);
}

TEST_F(MeetingTest, WhoIsElsewhereIsReachedOverTheNetwork) {
  Meeting::Attendee here = AgentAt("a");
  here.addresses[0].far = {std::byte{'x'}};
  Meeting::Attendee there = AgentAt("b");
  there.place = "there";
  there.addresses[0].far = {std::byte{'y'}};
  std::vector<Meeting> met = Meet({here, AgentAt("c"), there});
  ASSERT_EQ(met.size(), 3U);
  EXPECT_EQ(TextOf(met[0].AddressOf(2, 0)), "y");
  EXPECT_EQ(TextOf(met[1].AddressOf(0, 0)), "a");
  EXPECT_EQ(TextOf(met[2].AddressOf(0, 0)), "x");
}

TEST_F(MeetingTest, MessagesKeepTheirBoundsAndTheirOrder) {
  std::vector<Meeting> met = Meet({AgentAt("a"), AgentAt("b")});
  const std::string large(200'000, 'x');
  std::thread other([&] {
    EXPECT_TRUE(met[1].Send(0, AsBytes("one")).ok());
    EXPECT_TRUE(met[1].Send(0, AsBytes(large)).ok());
  });
  EXPECT_EQ(TextOf(*met[0].Receive(1)), "one");
  EXPECT_EQ(TextOf(*met[0].Receive(1)), large);
  other.join();
  ASSERT_TRUE(met[0].Send(1, AsBytes("two")).ok());
  EXPECT_EQ(TextOf(*met[1].Receive(0)), "two");
}

TEST_F(MeetingTest, TheEndOfAnAgentIsAnError) {
  std::vector<Meeting> met = Meet({AgentAt("a"), AgentAt("b")});
  met.pop_back();
  const Status end = met[0].Receive(1).status();
  EXPECT_EQ(end.code(), StatusCode::kUnavailable);
  EXPECT_THAT(end.message(), HasSubstr("host b"));
}

TEST_F(MeetingTest, StrangersAreNotHeard) {
  std::future<Result<Meeting>> home = Hold(2);
  Key128 wrong = kTestSecret;
  wrong[15] ^= 1;
  const UniqueFd stranger = Prove(wrong);
  // The head agent's proof is not valid for another agent.
  const UniqueFd mirror = Prove(kTestSecret, Side::kHead);
  const UniqueFd silent = Say("x", 1);
  ExpectHungUp(stranger);
  ExpectHungUp(mirror);
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
}

TEST_F(MeetingTest, AnAnswerIsGoodForOneQuestion) {
  std::future<Result<Meeting>> home = Hold(2);
  Meeting::Response response{Meeting::kFormat, 1, RandomNonce(), {}};
  {
    const UniqueFd fd = Connect();
    Meeting::Challenge challenge{};
    ASSERT_TRUE(Read(fd, &challenge, sizeof challenge));
    response.proof = *cuspan::Prove(kTestSecret, Side::kWorker, challenge.nonce, response.nonce, 1);
  }
  const UniqueFd again = Say(&response, sizeof response);
  ASSERT_TRUE(Read(again, &response, sizeof(Meeting::Challenge)));
  ExpectHungUp(again);
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
}

// A false head agent learns nothing from an agent, and the agent does not join it.
TEST_F(MeetingTest, AnAgentIsOfNoOthersRun) {
  std::future<Result<Meeting>> away = Attend(1);
  const net::Listener& listener = host_.listener();
  ASSERT_TRUE(net::AwaitEvents(listener.fd(), POLLIN, host_.never(), InTime()).ok());
  const UniqueFd fd = std::move(*listener.Accept());
  const Meeting::Challenge challenge{Meeting::kFormat, RandomNonce()};
  ASSERT_TRUE(net::SendAll(fd.get(), &challenge, sizeof challenge, host_.never(), InTime()).ok());
  Meeting::Response response{};
  ASSERT_TRUE(Read(fd, &response, sizeof response));
  // Its own proof, reflected: valid only for the other side.
  ASSERT_TRUE(
      net::SendAll(fd.get(), response.proof.data(), response.proof.size(), host_.never(), InTime())
          .ok());
  ExpectHungUp(fd);
  // It tries the next address, without success.
  host_.Close();
  EXPECT_FALSE(away.get().ok());
}

TEST_F(MeetingTest, ARankThatIsNoneOrTakenIsRefused) {
  std::future<Result<Meeting>> home = Hold(3);
  std::future<Result<Meeting>> first = Attend(1);
  std::future<Result<Meeting>> none = Attend(7);
  const Result<Meeting> refused = none.get();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kRefused);
  std::future<Result<Meeting>> second = Attend(2);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST_F(MeetingTest, AnotherVersionEndsIt) {
  std::future<Result<Meeting>> home = Hold(2);
  control::Join old = OwnJoin();
  old.set_table_hash(kOpTableHash ^ 1);
  const UniqueFd other = Join(old);
  EXPECT_THAT(AnswerTo(other).refusal(), HasSubstr("different versions"));
  const Result<Meeting> met = home.get();
  ASSERT_FALSE(met.ok());
  EXPECT_EQ(met.status().code(), StatusCode::kRefused);
  EXPECT_THAT(met.status().message(), HasSubstr("1.0-test"));
  EXPECT_THAT(met.status().message(), HasSubstr("elsewhere"));
}

// Field numbers unknown to this build.
TEST_F(MeetingTest, WhatANewerAgentSaysMoreIsIgnored) {
  std::future<Result<Meeting>> home = Hold(2);
  const std::string more = "\xa2\x06\x03new\xa8\x06\x2a";  // 100: "new"; 101: 42.
  control::Join newer;
  ASSERT_TRUE(newer.ParseFromString(OwnJoin().SerializeAsString() + more));
  ASSERT_GT(newer.ByteSizeLong(), OwnJoin().ByteSizeLong());
  const UniqueFd other = Join(newer);
  const Result<Meeting> met = home.get();
  ASSERT_TRUE(met.ok()) << met.status().message();
  EXPECT_EQ(met->attendees()[1].host, "elsewhere");
  EXPECT_EQ(AnswerTo(other).attendees_size(), 2);
}

TEST_F(MeetingTest, WhatANewerAgentRequiresIsRefusedByName) {
  std::future<Result<Meeting>> home = Hold(2);
  control::Join newer = OwnJoin();
  newer.add_required_features("teleportation");
  const UniqueFd other = Join(newer);
  EXPECT_THAT(AnswerTo(other).refusal(), HasSubstr("'teleportation'"));
  EXPECT_THAT(home.get().status().message(), HasSubstr("'teleportation'"));
}

TEST_F(MeetingTest, OtherLanesAreRefused) {
  std::future<Result<Meeting>> home = Hold(2);
  control::Join more = OwnJoin();
  more.mutable_self()->add_addresses()->set_near("a lane");
  const UniqueFd other = Join(more);
  EXPECT_THAT(home.get().status().message(), HasSubstr("CUSPAN_LANES"));
}

TEST_F(MeetingTest, AMessageThatIsNoneEndsThatAgentAlone) {
  std::future<Result<Meeting>> home = Hold(2);
  const std::uint32_t too_long = 0xffff'ffff;
  const UniqueFd greedy = Prove(kTestSecret);
  ASSERT_TRUE(net::SendAll(greedy.get(), &too_long, sizeof too_long, host_.never(), InTime()).ok());
  const UniqueFd garbled = Prove(kTestSecret);
  const char noise[] = "\x03\0\0\0\xff\xff\xff";
  ASSERT_TRUE(net::SendAll(garbled.get(), noise, 7, host_.never(), InTime()).ok());
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
}

TEST_F(MeetingTest, WhoHasNotComeIsNamed) {
  std::future<Result<Meeting>> first = Attend(1);
  const Result<Meeting> met = host_.Hold(
      4, AgentAt("home"), {}, std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
  ASSERT_FALSE(met.ok());
  EXPECT_THAT(met.status().message(), EndsWith("from host2, host3"));
  EXPECT_FALSE(first.get().ok());
}

TEST_F(MeetingTest, ItEndsWhenAnAgentHasEndedBefore) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd process(ends[0]);
  ::close(ends[1]);
  const int watched[] = {process.get()};
  EXPECT_EQ(host_.Hold(2, AgentAt("home"), watched).status().code(), StatusCode::kUnavailable);
}

TEST_F(MeetingTest, ItCanBeInterrupted) {
  std::future<Result<Meeting>> home = Hold(2);
  host_.Interrupt();
  EXPECT_EQ(home.get().status().message(), "interrupted");
}

TEST_F(MeetingTest, NoHomeAgentIsAnError) {
  host_.Close();
  const std::vector<net::Address> places = {host_.near()};
  const Result<Meeting> met = Meeting::Attend(places, kTestSecret, 1, AgentAt("away"), InTime());
  EXPECT_EQ(met.status().code(), StatusCode::kUnavailable);
}

// Agents of the run meet, in spite of earlier noise.
TEST_F(MeetingTest, NoiseIsNotHeard) {
  std::mt19937 random(7);
  std::vector<UniqueFd> strangers;
  std::future<Result<Meeting>> home = Hold(2);
  for (int i = 0; i < 50; ++i) {
    std::vector<unsigned char> noise(random() % 200 + 1);
    for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random());
    strangers.push_back(Say(noise.data(), noise.size()));
  }
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
}

}  // namespace
}  // namespace cuspan
