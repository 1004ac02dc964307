#include "launcher/agent/mpi/agent_bells.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace cuspan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Rest = Transport::Rest;

// A socket in the place of an agent, without answers.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof own;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), bytes), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    address_.family = AF_INET;
    address_.port = own.sin_port;
    std::memcpy(address_.bytes, &own.sin_addr, 4);
  }
  const net::Address& address() const { return address_; }
  // The contact of an agent on that host.
  BellContact contact(std::uint64_t host) const {
    BellContact contact;
    contact.host = host;
    contact.awake_microseconds = 200;
    contact.addresses = 1;
    contact.address[0] = address_;
    return contact;
  }
  // Datagrams arrived so far.
  std::vector<std::vector<char>> Take() {
    std::vector<std::vector<char>> taken;
    char bytes[256];
    for (ssize_t got = 0; (got = ::recv(fd_.get(), bytes, sizeof bytes, 0)) >= 0;)
      taken.emplace_back(bytes, bytes + got);
    return taken;
  }
  // Waits for a datagram.
  void Await() const {
    pollfd waited{fd_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, 60'000), 1);
  }
  void Send(const net::Address& to, const std::vector<char>& bytes) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = to.port;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::sendto(fd_.get(), bytes.data(), bytes.size(), 0,
                       reinterpret_cast<const sockaddr*>(&address), sizeof address),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  UniqueFd fd_;
  net::Address address_;
};

class AgentBellsTest : public testing::Test {
 protected:
  void SetUp() override {
    // Datagrams over the loopback then arrive in the order sent, to all sockets.
    ASSERT_EQ(::sched_getaffinity(0, sizeof cores_, &cores_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(std::max(::sched_getcpu(), 0)), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    for (std::unique_ptr<AgentBells>& agent : agents_) {
      Result<std::unique_ptr<AgentBells>> opened = AgentBells::Open();
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      agent = std::move(*opened);
    }
  }
  void TearDown() override { ::sched_setaffinity(0, sizeof cores_, &cores_); }
  AgentBells& first() { return *agents_[0]; }
  AgentBells& second() { return *agents_[1]; }
  void Meet() { Meet(first().contact(), second().contact()); }
  void Meet(const BellContact& of_first, const BellContact& of_second) {
    const BellContact contacts[] = {of_first, of_second};
    first().Meet(0, contacts, now_);
    second().Meet(1, contacts, now_);
    // Both read the ring of the other, then the answer.
    for (int i = 0; i < 2; ++i) {
      Arm(first(), Later(microseconds(100)));
      Arm(second(), now_);
    }
    Later(milliseconds(20));
  }
  // Returns after the arrival of all datagrams sent before.
  void Settle() {
    last_.Send(last_.address(), {'x'});
    last_.Await();
    last_.Take();
  }
  Rest Arm(AgentBells& agent, AgentBells::Time now) {
    Settle();
    return agent.Arm(now);
  }
  void Progress(AgentBells& agent, AgentBells::Time now) {
    Settle();
    agent.Progress(now);
  }
  std::vector<std::vector<char>> Take(Listener& listener) {
    Settle();
    return listener.Take();
  }
  bool Rung(const AgentBells& agent) {
    Settle();
    pollfd waited{agent.fd(), POLLIN, 0};
    return ::poll(&waited, 1, 0) == 1;
  }
  std::uint64_t Host() { return first().contact().host; }
  // Time of this test: it never waits.
  AgentBells::Time Later(std::chrono::nanoseconds passed) { return now_ += passed; }

  cpu_set_t cores_{};
  Listener last_;
  AgentBells::Time now_ = std::chrono::steady_clock::now();
  std::unique_ptr<AgentBells> agents_[2];
};

TEST_F(AgentBellsTest, AMessageAfterAPauseRings) {
  Meet();
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(Arm(second(), Later(milliseconds(20))), Rest::kUntilWoken);
    EXPECT_FALSE(Rung(second()));
    first().BeginSend(1, now_);
    EXPECT_TRUE(Rung(second()));
    EXPECT_EQ(Arm(second(), now_), Rest::kNone) << "the message must be on its way";
    second().CountReceived(0, now_);
    EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
    EXPECT_EQ(Arm(first(), Later(milliseconds(1))), Rest::kUntilWoken) << "it was answered";
    EXPECT_FALSE(first().active());
  }
}

TEST_F(AgentBellsTest, TheEndOfABurstRings) {
  Meet();
  first().BeginSend(1, now_);
  for (int i = 0; i < 5; ++i) first().BeginSend(1, Later(microseconds(1)));
  second().CountReceived(0, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken) << "only the first message was told";
  for (int i = 0; i < 5; ++i) second().CountReceived(0, now_);
  // More may be on their way: it polls.
  EXPECT_EQ(Arm(second(), now_), Rest::kNaps);
  EXPECT_EQ(Arm(first(), now_), Rest::kNaps);
  EXPECT_FALSE(Rung(second()));
  Progress(first(), Later(milliseconds(1)));
  EXPECT_TRUE(Rung(second()));
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, AnAgentAwaitingAnAnswerIsNotRung) {
  Meet();
  first().BeginSend(1, now_);
  first().EndSend(1, now_);
  second().CountReceived(0, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
  EXPECT_EQ(Arm(first(), Later(milliseconds(1))), Rest::kUntilWoken);
  second().CountReceived(0, now_);
  second().BeginSend(0, now_);
  second().EndSend(0, now_);
  EXPECT_FALSE(Rung(first())) << "it polls";
  Progress(second(), Later(microseconds(500)));
  EXPECT_TRUE(Rung(first())) << "the end of the burst, in case that it does not";
}

TEST_F(AgentBellsTest, ALateAnswerGoesAheadOfItsRing) {
  Meet();
  second().CountReceived(0, now_);
  second().BeginSend(0, Later(milliseconds(20)));
  EXPECT_FALSE(Rung(first()));
  second().EndSend(0, now_);
  EXPECT_TRUE(Rung(first()));
}

TEST_F(AgentBellsTest, AnAnnouncedMessageRingsOnce) {
  Meet();
  first().Announce(1, now_);
  EXPECT_TRUE(Rung(second()));
  first().Announce(1, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kNone);
  EXPECT_FALSE(Rung(second()));
  first().BeginSend(1, Later(microseconds(5)));
  first().EndSend(1, now_);
  EXPECT_FALSE(Rung(second()));
  second().CountReceived(0, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
  Progress(first(), Later(milliseconds(1)));
  EXPECT_FALSE(Rung(second()));
  EXPECT_FALSE(first().active());
}

TEST_F(AgentBellsTest, AnAnnouncedMessageMayNotCome) {
  Meet();
  first().Announce(1, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kNone);
  Progress(first(), Later(milliseconds(1)));
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, ADelayedMessageIsPolledFor) {
  Meet();
  first().BeginSend(1, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kNone);
  EXPECT_EQ(Arm(second(), Later(milliseconds(50))), Rest::kNaps);
  second().CountReceived(0, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, ItPollsForAnAgentNeverHeard) {
  Listener listener;
  second().Meet(1, std::vector{listener.contact(Host()), second().contact()}, now_);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Arm(second(), Later(milliseconds(1))), Rest::kNaps);
  EXPECT_FALSE(second().active());
  second().GiveUp(0);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, WithoutRingsItPolls) {
  Meet();
  second().CountReceived(0, now_);
  EXPECT_EQ(Arm(second(), now_), Rest::kNaps);
  second().GiveUp(0);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, LostRingsAreRepeatedAndEnd) {
  Listener listener;
  Meet(first().contact(), listener.contact(Host()));
  std::size_t rings = 0;
  for (int message = 0; message < 100; ++message) {
    first().BeginSend(1, Later(milliseconds(20)));
    const std::size_t before = rings;
    rings += Take(listener).size();
    for (int i = 0; i < 100; ++i) Progress(first(), Later(milliseconds(1)));
    rings += Take(listener).size();
    if (message == 0) {
      EXPECT_GE(rings, 2U) << "repeated";
    }
    EXPECT_LE(rings - before, 8U);
    EXPECT_FALSE(first().active()) << "nothing is waited for";
  }
  EXPECT_LE(rings, 32U) << "an agent not reached by datagrams is left alone";
}

TEST_F(AgentBellsTest, OnlyTheAddressThatAnsweredIsUsed) {
  Listener elsewhere;
  BellContact contact = second().contact();
  ASSERT_GE(contact.addresses, 1U);
  // The last address is the loopback.
  contact.address[1] = contact.address[contact.addresses - 1];
  contact.address[0] = elsewhere.address();
  contact.addresses = 2;
  Meet(first().contact(), contact);
  EXPECT_EQ(Take(elsewhere).size(), 1U);
  first().BeginSend(1, now_);
  EXPECT_TRUE(Rung(second()));
  EXPECT_EQ(Take(elsewhere).size(), 0U);
}

TEST_F(AgentBellsTest, TheLoopbackReachesAgentsOfThisHostOnly) {
  Listener listener;
  Meet(first().contact(), listener.contact(Host() + 1));
  first().BeginSend(1, now_);
  EXPECT_EQ(Take(listener).size(), 0U) << "another process here must not get the token";
}

TEST_F(AgentBellsTest, AnAgentWithoutABellIsNotRung) {
  Meet(first().contact(), BellContact());
  first().BeginSend(1, now_);
  EXPECT_FALSE(first().active());
}

TEST_F(AgentBellsTest, StrangersRingForNothing) {
  Listener stranger;
  Listener spy;
  Meet(spy.contact(Host()), second().contact());
  const net::Address place = second().contact().address[second().contact().addresses - 1];
  Take(spy);
  // The token of the spy is zero.
  first().Meet(0, std::vector{first().contact(), spy.contact(Host())}, now_);
  first().BeginSend(1, now_);
  std::vector<std::vector<char>> rings = Take(spy);
  ASSERT_EQ(rings.size(), 2U);
  std::vector<char> ring = rings.back();
  stranger.Send(place, ring);
  EXPECT_EQ(Arm(second(), now_), Rest::kNaps) << "a wrong token";

  const Key128 token = second().contact().token;
  std::memcpy(ring.data(), token.data(), token.size());
  // A rank that does not exist, an unknown kind, wrong lengths.
  for (const std::size_t changed : {sizeof token, sizeof token + 4}) {
    std::vector<char> wrong = ring;
    std::memset(wrong.data() + changed, 0x7f, 4);
    stranger.Send(place, wrong);
  }
  stranger.Send(place, {ring.begin(), ring.end() - 1});
  ring.push_back(0);
  stranger.Send(place, ring);
  stranger.Send(place, {});
  EXPECT_EQ(Arm(second(), now_), Rest::kNaps);
  EXPECT_FALSE(Rung(second())) << "they were read";
  EXPECT_EQ(Take(stranger).size(), 0U) << "and not answered";
  // Unlike the ring itself.
  ring.pop_back();
  stranger.Send(place, ring);
  EXPECT_EQ(Arm(second(), now_), Rest::kNone);
  EXPECT_EQ(Take(stranger).size(), 1U);
}

TEST_F(AgentBellsTest, AWokenAgentPollsForTheMessageAWhile) {
  Meet();
  ASSERT_EQ(Arm(second(), now_), Rest::kUntilWoken);
  const std::optional<FarWake> wake = first().WakeOf(1);
  ASSERT_TRUE(wake.has_value());
  FarWaker().Send(*wake);
  EXPECT_TRUE(Rung(second()));
  EXPECT_EQ(Arm(second(), now_), Rest::kNone);
  EXPECT_FALSE(Rung(second())) << "it was read";
  EXPECT_EQ(Arm(second(), Later(milliseconds(5))), Rest::kUntilWoken) << "no message has come";
  // Neither counts the wake as a message or a ring.
  EXPECT_EQ(Arm(first(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, AMessageToAWokenAgentGoesAheadOfItsRing) {
  Meet();
  Later(milliseconds(100));
  first().Woken(1, now_);
  first().BeginSend(1, now_);
  EXPECT_FALSE(Rung(second()));
  first().EndSend(1, now_);
  EXPECT_TRUE(Rung(second()));
}

TEST_F(AgentBellsTest, AWakeWithAnotherTokenIsIgnored) {
  Meet();
  const std::optional<FarWake> wake = first().WakeOf(1);
  ASSERT_TRUE(wake.has_value());
  FarWake changed = *wake;
  changed.datagram[0] ^= std::byte{1};
  FarWaker().Send(changed);
  // The token of rings wakes nobody in this way.
  std::memcpy(changed.datagram, second().contact().token.data(), sizeof(Key128));
  FarWaker().Send(changed);
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
}

TEST_F(AgentBellsTest, AnAgentNeverHeardHasNoKnownAddress) {
  Listener silent;
  first().Meet(0, std::vector{first().contact(), silent.contact(Host())}, now_);
  EXPECT_FALSE(first().WakeOf(1).has_value());
}

TEST_F(AgentBellsTest, AFloodDoesNotHoldUpTheAgent) {
  Meet();
  Listener stranger;
  const net::Address place = second().contact().address[second().contact().addresses - 1];
  for (int i = 0; i < 100; ++i) stranger.Send(place, {'x'});
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
  EXPECT_TRUE(Rung(second())) << "the rest wakes it again";
  EXPECT_EQ(Arm(second(), now_), Rest::kUntilWoken);
  EXPECT_FALSE(Rung(second()));
}

}  // namespace
}  // namespace cuspan
