#include "launcher/agent/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <random>

#include "ops.gen.h"
#include "tests/unit/launcher/agent/meetings.h"

namespace cuspan {
namespace {

using testing::HasSubstr;

std::string TextOf(const Meeting::Blob& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

// What an agent says first: launcher/agent/meeting.h.
struct First {
  std::uint64_t table_hash = kOpTableHash;
  Key128 secret = kTestSecret;
  std::uint32_t rank = 1;
  std::uint32_t bytes = 0;
};

class MeetingTest : public testing::Test {
 protected:
  UniqueFd Say(const void* data, std::size_t bytes) {
    Result<UniqueFd> connected = net::Connect(host_.near(), host_.never(), InTime());
    EXPECT_TRUE(connected.ok()) << connected.status().message();
    EXPECT_EQ(::send(connected->get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    return std::move(*connected);
  }
  std::future<Result<Meeting>> Attend(std::uint32_t rank) {
    return std::async(std::launch::async, [this, rank] {
      return Meeting::Attend(host_.places(), kTestSecret, rank, AsBytes("away"), InTime());
    });
  }
  std::future<Result<Meeting>> Hold(std::uint32_t agents) {
    return std::async(std::launch::async,
                      [this, agents] { return host_.Hold(agents, AsBytes("home")); });
  }

  Host host_;
};

TEST_F(MeetingTest, AllLearnWhereAllAre) {
  std::vector<Meeting> met = Meet({AsBytes("a"), AsBytes("bb"), AsBytes("")});
  ASSERT_EQ(met.size(), 3U);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(met[rank].rank(), rank);
    ASSERT_EQ(met[rank].size(), 3U);
    EXPECT_EQ(TextOf(met[rank].addresses()[0]), "a");
    EXPECT_EQ(TextOf(met[rank].addresses()[1]), "bb");
    EXPECT_EQ(TextOf(met[rank].addresses()[2]), "");
    EXPECT_EQ(met[rank].token(), met[0].token());
  }
  EXPECT_NE(met[0].token(), 0U);
}

TEST_F(MeetingTest, MessagesKeepTheirBoundsAndTheirOrder) {
  std::vector<Meeting> met = Meet({AsBytes("a"), AsBytes("b")});
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
  std::vector<Meeting> met = Meet({AsBytes("a"), AsBytes("b")});
  met.pop_back();
  EXPECT_EQ(met[0].Receive(1).status().code(), StatusCode::kUnavailable);
}

TEST_F(MeetingTest, StrangersAreNotHeard) {
  std::future<Result<Meeting>> home = Hold(2);
  First wrong;
  wrong.secret[15] ^= 1;
  const UniqueFd stranger = Say(&wrong, sizeof wrong);
  const UniqueFd silent = Say("x", 1);
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
  // Not even how it was wrong.
  char byte = 0;
  EXPECT_TRUE(net::AwaitEvents(stranger.get(), POLLIN, host_.never(), InTime()).ok());
  EXPECT_LE(::recv(stranger.get(), &byte, 1, 0), 0);
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
  First old;
  old.table_hash ^= 1;
  const UniqueFd other = Say(&old, sizeof old);
  const Result<Meeting> met = home.get();
  ASSERT_FALSE(met.ok());
  EXPECT_THAT(met.status().message(), HasSubstr("version"));
}

TEST_F(MeetingTest, AnAddressWithoutEndIsNotTaken) {
  std::future<Result<Meeting>> home = Hold(2);
  First greedy;
  greedy.bytes = 0xffff'ffff;
  const UniqueFd other = Say(&greedy, sizeof greedy);
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
}

TEST_F(MeetingTest, ItEndsWhenAnAgentHasEndedBefore) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd process(ends[0]);
  ::close(ends[1]);
  const int watched[] = {process.get()};
  EXPECT_EQ(host_.Hold(2, AsBytes("home"), watched).status().code(), StatusCode::kUnavailable);
}

TEST_F(MeetingTest, ItCanBeInterrupted) {
  std::future<Result<Meeting>> home = Hold(2);
  host_.Interrupt();
  EXPECT_EQ(home.get().status().message(), "interrupted");
}

TEST_F(MeetingTest, NoHomeAgentIsAnError) {
  Host gone;
  const std::vector<net::Address> places = {gone.near()};
  { const Host moved = std::move(gone); }
  const Result<Meeting> met = Meeting::Attend(places, kTestSecret, 1, AsBytes("away"), InTime());
  EXPECT_EQ(met.status().code(), StatusCode::kUnavailable);
}

// Whatever comes first, those of the run meet.
TEST_F(MeetingTest, NoiseIsNotHeard) {
  std::mt19937 random(7);
  std::vector<UniqueFd> strangers;
  std::future<Result<Meeting>> home = Hold(2);
  for (int i = 0; i < 50; ++i) {
    std::vector<unsigned char> noise(random() % 80 + 1);
    for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random());
    strangers.push_back(Say(noise.data(), noise.size()));
  }
  std::future<Result<Meeting>> away = Attend(1);
  EXPECT_TRUE(home.get().ok());
  EXPECT_TRUE(away.get().ok());
}

}  // namespace
}  // namespace cuspan
