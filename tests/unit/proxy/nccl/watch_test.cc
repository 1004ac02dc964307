#include "proxy/nccl/watch.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <optional>
#include <vector>

#include "proxy/nccl/watch_messages.h"

namespace cuspan::proxy {
namespace {

constexpr int kVersion = nccl::VersionCode(2, 28, 9);

RankId NewId() {
  RankId id;
  id.bytes[0] = 7;  // Belongs to NCCL.
  EXPECT_TRUE(OpenLivenessServer(id).ok());
  return id;
}

std::shared_ptr<Watch> Come(RankId id, int rank, int size, int version = kVersion) {
  const std::optional<LivenessAddress> place = ExtractLivenessAddress(id);
  EXPECT_TRUE(place.has_value());
  Result<std::shared_ptr<Watch>> watch = Watch::Join(*place, rank, size, version);
  EXPECT_TRUE(watch.ok()) << watch.status().message();
  EXPECT_EQ(id.bytes[0], 7);
  for (std::size_t i = 1; i < id.bytes.size(); ++i) EXPECT_EQ(id.bytes[i], 0) << i;
  return *watch;
}

// Connects all ranks and waits for all of them.
std::vector<std::shared_ptr<Watch>> ComeAll(const RankId& id, int size) {
  std::vector<std::shared_ptr<Watch>> watches;
  for (int rank = 0; rank < size; ++rank) watches.push_back(Come(id, rank, size));
  for (const auto& watch : watches) EXPECT_TRUE(watch->AwaitAll().ok());
  return watches;
}

// Lost ranks reported by a watch.
class Losses {
 public:
  explicit Losses(Watch& watch) : watch_(watch) {
    listener_ = watch_.OnLost([this](int rank, const std::string& problem) {
      const std::lock_guard lock(mutex_);
      lost_.emplace_back(rank, problem);
      changed_.notify_all();
    });
  }
  ~Losses() { watch_.Forget(listener_); }

  std::pair<int, std::string> Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !lost_.empty(); });
    return lost_.front();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return lost_.size();
  }

 private:
  Watch& watch_;
  std::uint64_t listener_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, std::string>> lost_;
};

// Acts like a killed process: its connection closes without a message.
void Kill(std::shared_ptr<Watch>& watch) {
  watch->GiveUp();
  watch.reset();
}

TEST(Watch, AnIdWithoutAHouseHasNoPlace) {
  RankId id;
  EXPECT_FALSE(ExtractLivenessAddress(id).has_value());
}

TEST(Watch, AnIdThatNcclFillsGetsNoHouse) {
  RankId id;
  id.bytes.back() = 1;
  EXPECT_EQ(OpenLivenessServer(id).code(), StatusCode::kUnsupported);
}

TEST(Watch, WaitsForAll) {
  const RankId id = NewId();
  const auto first = Come(id, 0, 3);
  const auto second = Come(id, 1, 3);
  auto waiting = std::async(std::launch::async, [&] { return first->AwaitAll(); });
  const auto third = Come(id, 2, 3);
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_TRUE(second->AwaitAll().ok());
  EXPECT_TRUE(third->AwaitAll().ok());
}

TEST(Watch, WhoGivesUpWaitsNoMore) {
  const RankId id = NewId();
  const auto first = Come(id, 0, 2);
  auto waiting = std::async(std::launch::async, [&] { return first->AwaitAll(); });
  first->GiveUp();
  EXPECT_EQ(waiting.get().code(), StatusCode::kUnavailable);
}

TEST(Watch, ReleasesThatDifferAreNamed) {
  const RankId id = NewId();
  const auto first = Come(id, 0, 2);
  const auto second = Come(id, 1, 2, nccl::VersionCode(2, 27, 3));
  for (const auto& watch : {first, second}) {
    const Status all = watch->AwaitAll();
    EXPECT_EQ(all.code(), StatusCode::kInvalid);
    EXPECT_NE(all.message().find("NCCL 2.28.9"), std::string::npos) << all.message();
    EXPECT_NE(all.message().find("2.27.3"), std::string::npos) << all.message();
  }
}

TEST(Watch, RanksThatDisagreeAreNamed) {
  const RankId sizes = NewId();
  const auto two = Come(sizes, 0, 2);
  const auto three = Come(sizes, 1, 3);
  EXPECT_EQ(two->AwaitAll().code(), StatusCode::kInvalid);
  EXPECT_EQ(three->AwaitAll().code(), StatusCode::kInvalid);
  const RankId same = NewId();
  const auto one = Come(same, 1, 2);
  const auto again = Come(same, 1, 2);
  EXPECT_EQ(one->AwaitAll().message(), "two ranks have the number 1");
}

TEST(Watch, ARankThatIsLostBeforeAllHaveComeEndsTheWaiting) {
  const RankId id = NewId();
  const auto first = Come(id, 0, 3);
  auto second = Come(id, 1, 3);
  auto waiting = std::async(std::launch::async, [&] { return first->AwaitAll(); });
  Kill(second);
  const Status all = waiting.get();
  EXPECT_EQ(all.code(), StatusCode::kUnavailable);
  EXPECT_NE(all.message().find("rank 1 on host"), std::string::npos) << all.message();
  EXPECT_NE(all.message().find("while the communicator was created"), std::string::npos);
}

TEST(Watch, ALostRankIsToldToAllOthers) {
  auto watches = ComeAll(NewId(), 3);
  Losses first(*watches[0]), second(*watches[1]);
  Kill(watches[2]);
  EXPECT_EQ(first.Await().first, 2);
  EXPECT_EQ(second.Await().first, 2);
  // A later listener is notified, too.
  Losses later(*watches[0]);
  EXPECT_EQ(later.Await().first, 2);
}

TEST(Watch, ARankThatEndsInGoodOrderIsNotLost) {
  auto watches = ComeAll(NewId(), 3);
  Losses first(*watches[0]);
  watches[1].reset();
  // Notifications are in order: the loss comes after earlier messages.
  Kill(watches[2]);
  EXPECT_EQ(first.Await().first, 2);
  EXPECT_EQ(first.count(), 1U);
}

TEST(Watch, WhoComesAfterALossHearsOfIt) {
  const RankId id = NewId();
  const auto first = Come(id, 0, 3);
  auto second = Come(id, 1, 3);
  Kill(second);
  EXPECT_FALSE(first->AwaitAll().ok());
  const Status all = Come(id, 2, 3)->AwaitAll();
  EXPECT_EQ(all.code(), StatusCode::kUnavailable);
  EXPECT_NE(all.message().find("rank 1 on host"), std::string::npos) << all.message();
}

TEST(Watch, WhoLeavesBeforeAllHaveComeIsMissed) {
  const RankId id = NewId();
  const auto first = Come(id, 0, 3);
  Come(id, 1, 3).reset();
  EXPECT_EQ(first->AwaitAll().code(), StatusCode::kUnavailable);
}

TEST(Watch, OneTooManyIsRefused) {
  const RankId id = NewId();
  const auto watches = ComeAll(id, 2);
  const Status all = Come(id, 1, 2)->AwaitAll();
  EXPECT_EQ(all.message(), "all ranks of the communicator have already joined");
}

TEST(Watch, PartsHaveTheirOwnMembers) {
  auto watches = ComeAll(NewId(), 3);
  const WatchGroup even{7, 0}, odd{7, 1};
  for (int rank = 0; rank < 3; ++rank)
    watches[static_cast<std::size_t>(rank)]->Announce(rank % 2 == 0 ? even : odd);
  Losses first(*watches[0]);
  Kill(watches[2]);
  EXPECT_EQ(first.Await().first, 2);
  // A rank's announcements are known before its loss.
  EXPECT_TRUE(watches[0]->IsMember(even, 2));
  EXPECT_FALSE(watches[0]->IsMember(odd, 2));
  EXPECT_TRUE(watches[0]->IsMember({}, 2));
}

TEST(Watch, StrangersAreNotCounted) {
  RankId id = NewId();
  RankId wrong = id;
  wrong.bytes[kLivenessAddressAt + offsetof(LivenessAddress, key)] ^= 1;
  const Result<std::shared_ptr<Watch>> stranger =
      Watch::Join(*ExtractLivenessAddress(wrong), 1, 2, kVersion);
  ASSERT_TRUE(stranger.ok());
  EXPECT_EQ((*stranger)->AwaitAll().code(), StatusCode::kUnavailable);
  const auto first = Come(id, 0, 2);
  const auto second = Come(id, 1, 2);
  EXPECT_TRUE(first->AwaitAll().ok());
}

TEST(Watch, AHouseThatIsGoneIsNamed) {
  RankId id = NewId();
  std::uint8_t* const port = id.bytes.data() + kLivenessAddressAt +
                             offsetof(LivenessAddress, address) + offsetof(net::Address, port);
  port[0] = 0;
  port[1] = 1;  // No process listens there.
  const Result<std::shared_ptr<Watch>> watch =
      Watch::Join(*ExtractLivenessAddress(id), 0, 2, kVersion);
  ASSERT_FALSE(watch.ok());
  EXPECT_NE(watch.status().message().find("NCCL_SOCKET_IFNAME"), std::string::npos);
}

}  // namespace
}  // namespace cuspan::proxy
