// Tests the table of runs sharing a GPU: joining, opening of gates, and remains of killed runs.
#include "protocol/sharing/share_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "protocol/sharing/share_slot.h"

namespace cuspan {
namespace {

class ShareTableTest : public ::testing::Test {
 protected:
  ShareTableTest() {
    char name[] = "/dev/shm/cuspan-test-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~ShareTableTest() override { std::filesystem::remove_all(folder); }

  ShareTable Table() {
    Result<ShareTable> table = ShareTable::OpenOrCreate(folder, "host", "gpu");
    EXPECT_TRUE(table.ok()) << table.status().message();
    return std::move(*table);
  }
  static ShareTerms Terms(std::int32_t niceness = 0, std::uint32_t quota = 0,
                          std::uint32_t most_runs = 4) {
    ShareTerms terms;
    terms.shared = true;
    terms.niceness = niceness;
    terms.quota = quota;
    terms.most_runs = most_runs;
    return terms;
  }
  std::unique_ptr<ShareSlot> Seat(ShareTable& table, const std::string& run) {
    Result<UniqueFd> fd = table.OpenAgain();
    EXPECT_TRUE(fd.ok());
    const Result<std::uint32_t> place = table.FindRun(run);
    EXPECT_TRUE(place.ok()) << place.status().message();
    Result<std::unique_ptr<ShareSlot>> seat = ShareSlot::Take(std::move(*fd), *place);
    EXPECT_TRUE(seat.ok()) << seat.status().message();
    return std::move(*seat);
  }
  static void Begin(ShareSlot& seat) {
    seat.SetWants();
    EXPECT_TRUE(seat.Decide().ok());
  }
  std::string Path() const {
    return folder + "/cuspan-share-host-gpu-" + std::to_string(::geteuid());
  }

  std::string folder;
};

TEST_F(ShareTableTest, RunsComeInUpToTheLimitOfEach) {
  ShareTable first = Table(), second = Table(), third = Table();
  ASSERT_TRUE(first.JoinRun("1", "u", "p", Terms(0, 0, 2)).ok());
  ASSERT_TRUE(second.JoinRun("2", "u", "p", Terms(0, 0, 16)).ok());
  const Status refused = third.JoinRun("3", "u", "p", Terms(0, 0, 16));
  EXPECT_EQ(refused.code(), StatusCode::kExhausted);
  EXPECT_NE(refused.message().find("2 runs"), std::string::npos) << refused.message();
  EXPECT_EQ(third.MayJoin(Terms()).code(), StatusCode::kExhausted);
}

TEST_F(ShareTableTest, TheTimesInPairsAreCounted) {
  ShareTerms terms = Terms();
  terms.pair = true;
  ShareTable first = Table();
  ASSERT_TRUE(first.JoinRun("1", "u", "p", terms).ok());
  const std::unique_ptr<ShareSlot> one = Seat(first, "1");
  one->SetKnown(true);
  Begin(*one);
  EXPECT_FALSE(one->paired());
  EXPECT_EQ(one->pairings(), 0U);
  for (std::uint32_t times = 1; times <= 3; ++times) {
    {
      ShareTable second = Table();
      ASSERT_TRUE(second.JoinRun("2", "u", "p", terms).ok());
      const std::unique_ptr<ShareSlot> two = Seat(second, "2");
      two->SetKnown(true);
      Begin(*two);
      ASSERT_TRUE(one->paired() && two->paired());
      ASSERT_TRUE(one->Decide().ok());
      EXPECT_EQ(one->pairings(), times);
      EXPECT_EQ(two->pairings(), 1U);
      const auto runs = second.Query();
      ASSERT_TRUE(runs.ok());
      for (const SharingRun& run : runs.value())
        EXPECT_TRUE(run.paired && run.has_turn) << "both are on the GPU";
    }
    ASSERT_TRUE(one->Decide().ok());
    EXPECT_FALSE(one->paired());
  }
}

TEST_F(ShareTableTest, WhatIsPromisedIsNoMoreThanThereIs) {
  ShareTable first = Table(), second = Table();
  ASSERT_TRUE(first.JoinRun("1", "u", "p", Terms(0, 700)).ok());
  const Status refused = second.JoinRun("2", "u", "p", Terms(0, 301));
  EXPECT_EQ(refused.code(), StatusCode::kExhausted);
  EXPECT_NE(refused.message().find("70"), std::string::npos) << refused.message();
  EXPECT_TRUE(second.JoinRun("2", "u", "p", Terms(0, 300)).ok());
}

TEST_F(ShareTableTest, APlaceIsFreeWhenItsRunHasLeft) {
  ShareTable second = Table();
  {
    ShareTable first = Table();
    ASSERT_TRUE(first.JoinRun("1", "u", "p", Terms(0, 1000)).ok());
    EXPECT_FALSE(second.JoinRun("2", "u", "p", Terms(0, 1)).ok());
  }
  EXPECT_TRUE(second.JoinRun("2", "u", "p", Terms(0, 1)).ok());
}

TEST_F(ShareTableTest, LookTellsWhoIsThere) {
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("abc", "me", std::string(200, 'x'), Terms(-10, 300)).ok());
  const auto seat = Seat(table, "abc");
  const auto runs = table.Query();
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs->size(), 1U);
  EXPECT_EQ(runs->front().run, "abc");
  EXPECT_EQ(runs->front().user, "me");
  EXPECT_EQ(runs->front().program, std::string(64, 'x'));
  EXPECT_EQ(runs->front().terms.niceness, -10);
  EXPECT_EQ(runs->front().terms.quota, 300U);
  EXPECT_EQ(runs->front().sessions, 1U);
}

TEST_F(ShareTableTest, OneHasTheTurnAndTheOtherGetsIt) {
  ShareTable first = Table(), second = Table();
  ASSERT_TRUE(first.JoinRun("1", "u", "p", Terms()).ok());
  const auto a = Seat(first, "1");
  EXPECT_FALSE(a->gated());
  ASSERT_TRUE(second.JoinRun("2", "u", "p", Terms()).ok());
  const auto b = Seat(second, "2");
  EXPECT_TRUE(a->gated());
  Begin(*a);
  a->SetOnGpu(true, ShareSlot::Now() + 1'000'000, ShareSlot::Now());
  EXPECT_TRUE(a->open());
  Begin(*b);
  EXPECT_FALSE(b->open());
  EXPECT_TRUE(a->some_wait());
  const std::uint32_t rings = b->rings();
  a->SetIdle(ShareSlot::Now());
  // The deciding process wakes the other.
  const std::uint64_t since = ShareSlot::Now();
  while (!b->open() && ShareSlot::Now() - since < 1'000'000'000) ASSERT_TRUE(a->Decide().ok());
  EXPECT_TRUE(b->open());
  EXPECT_FALSE(a->open());
  EXPECT_NE(b->rings(), rings) << "it is woken";
}

TEST_F(ShareTableTest, HighPriorityIsLetGoAtOnce) {
  ShareTable first = Table(), second = Table();
  ASSERT_TRUE(first.JoinRun("1", "u", "p", Terms(10)).ok());
  ASSERT_TRUE(second.JoinRun("2", "u", "p", Terms(-10)).ok());
  const auto batch = Seat(first, "1");
  const auto urgent = Seat(second, "2");
  EXPECT_FALSE(urgent->preemptible());
  ASSERT_TRUE(batch->Decide().ok());
  EXPECT_TRUE(batch->preemptible());
  Begin(*batch);
  batch->SetOnGpu(true, 0, ShareSlot::Now());
  Begin(*urgent);
  EXPECT_TRUE(urgent->open());
  EXPECT_FALSE(batch->open());
}

// If one process of a run may use the GPU, all its processes may.
TEST_F(ShareTableTest, TheSessionsOfARunAreOne) {
  ShareTable first = Table(), second = Table();
  ASSERT_TRUE(first.JoinRun("1", "u", "p", Terms()).ok());
  ASSERT_TRUE(second.JoinRun("2", "u", "p", Terms()).ok());
  const auto a = Seat(first, "1");
  const auto b = Seat(first, "1");
  Begin(*a);
  EXPECT_TRUE(b->open());
}

class Child {
 public:
  // Calls `what` in a child process. The child lives until it is killed.
  template <typename What>
  explicit Child(What what) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      what();
      [[maybe_unused]] const ssize_t told = ::write(ends[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST_F(ShareTableTest, AKilledRunLeavesNothingAndTheOtherGoesOn) {
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms(0, 0, 2)).ok());
  const auto seat = Seat(table, "1");
  // Destructors do not run in the child.
  Child other([&] {
    auto* theirs = new ShareTable(Table());
    if (!theirs->JoinRun("2", "u", "p", Terms(-10, 0, 2)).ok()) ::_exit(1);
    auto* held = Seat(*theirs, "2").release();
    Begin(*held);
    held->SetOnGpu(true, 0, ShareSlot::Now());
  });
  Begin(*seat);
  EXPECT_FALSE(seat->open());
  other.Kill();
  const std::uint64_t killed = ShareSlot::Now();
  while (!seat->open() && ShareSlot::Now() - killed < 1'000'000'000) {
    EXPECT_LE(seat->next_decision(), ShareSlot::Now() + 50'000'000);
    ASSERT_TRUE(seat->Decide().ok());
  }
  EXPECT_TRUE(seat->open());
  EXPECT_LE(ShareSlot::Now() - killed, 100'000'000U);
  EXPECT_FALSE(seat->gated());
  EXPECT_TRUE(Table().MayJoin(Terms(0, 0, 2)).ok());
}

// After a kill at any moment, the next process finds a usable table.
TEST_F(ShareTableTest, KillsAtAnyMomentHurtNobody) {
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms(0, 0, 4)).ok());
  const auto seat = Seat(table, "1");
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        auto theirs = ShareTable::OpenOrCreate(folder, "host", "gpu");
        if (!theirs.ok() || !theirs->JoinRun("2", "u", "p", Terms(-5, 100, 4)).ok()) continue;
        const auto held = Seat(*theirs, "2");
        for (int i = 0; i < 20; ++i) {
          held->SetWants();
          held->SetOnGpu(true, 0, ShareSlot::Now());
          (void)held->Decide();
          held->SetIdle(ShareSlot::Now());
          (void)held->Decide();
        }
      }
    }
    ::usleep(random() % 3000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::uint64_t killed = ShareSlot::Now();
    Begin(*seat);
    while (!seat->open() && ShareSlot::Now() - killed < 1'000'000'000)
      ASSERT_TRUE(seat->Decide().ok());
    ASSERT_TRUE(seat->open()) << round;
    EXPECT_LE(ShareSlot::Now() - killed, 100'000'000U) << round;
    seat->SetIdle(ShareSlot::Now());
  }
}

TEST_F(ShareTableTest, AStoppedProcessDoesNotHoldUpTheOthersForEver) {
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms()).ok());
  const auto seat = Seat(table, "1");
  // This process holds the table's lock and does nothing.
  Child stopped([&] {
    const int fd = ::open(Path().c_str(), O_RDWR);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_len = 1;
    if (fd < 0 || ::fcntl(fd, F_OFD_SETLK, &lock) != 0) ::_exit(1);
  });
  const Status refused = seat->Decide();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  stopped.Kill();
  EXPECT_TRUE(seat->Decide().ok());
}

TEST_F(ShareTableTest, WhatLiesThereIsCheckedFirst) {
  std::ofstream(Path()) << "garbage";
  EXPECT_TRUE(ShareTable::OpenOrCreate(folder, "host", "gpu").ok()) << "nobody uses it";
  std::filesystem::remove(Path());
  std::filesystem::create_symlink("/etc/passwd", Path());
  EXPECT_FALSE(ShareTable::OpenOrCreate(folder, "host", "gpu").ok());
  std::filesystem::remove(Path());
  std::filesystem::create_directory(Path());
  EXPECT_FALSE(ShareTable::OpenOrCreate(folder, "host", "gpu").ok());
  EXPECT_EQ(ShareTable::Open(folder, "host", "other").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ShareTable::OpenOrCreate("/nonexistent", "host", "gpu").ok());
}

TEST_F(ShareTableTest, GarbageInATableThatIsUsedIsNoCrash) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    ShareTable table = Table();
    ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms()).ok());
    const auto seat = Seat(table, "1");
    const int fd = ::open(Path().c_str(), O_RDWR);
    struct stat found {};
    ASSERT_EQ(::fstat(fd, &found), 0);
    std::vector<unsigned char> noise(static_cast<std::size_t>(found.st_size) - 64);
    for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random() % 2);
    ASSERT_EQ(::pwrite(fd, noise.data(), noise.size(), 64), static_cast<ssize_t>(noise.size()));
    ::close(fd);
    (void)seat->Decide();
    (void)table.Query();
    (void)table.FindRun("1");
    (void)table.MayJoin(Terms());
  }
}

TEST_F(ShareTableTest, ATableOfAnotherVersionIsRefusedWhileItIsUsed) {
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms()).ok());
  const int fd = ::open(Path().c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(fd, "another", 7, 0), 7);
  ::close(fd);
  const Result<ShareTable> refused = ShareTable::OpenOrCreate(folder, "host", "gpu");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("version"), std::string::npos);
}

TEST_F(ShareTableTest, AnotherUserHasATableOfHisOwnAndCanNotOpenOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to be another user";
  ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms()).ok());
  EXPECT_TRUE(table.HasRuns());
  const std::string path = Path();
  Child other([&] {
    if (::seteuid(4242) != 0 || ::open(path.c_str(), O_RDONLY) >= 0) ::_exit(1);
    auto* theirs = new ShareTable(Table());
    if (theirs->HasRuns() || !theirs->JoinRun("2", "u", "p", Terms()).ok()) ::_exit(1);
  });
  EXPECT_TRUE(table.FindRun("1").ok());
  EXPECT_FALSE(table.FindRun("2").ok());
}

TEST_F(ShareTableTest, AFullTableSaysSo) {
  ShareTable table = Table();
  ASSERT_TRUE(table.JoinRun("1", "u", "p", Terms()).ok());
  std::vector<std::unique_ptr<ShareSlot>> seats;
  for (std::uint32_t i = 0; i < kMaxSharingSessions; ++i) seats.push_back(Seat(table, "1"));
  Result<UniqueFd> fd = table.OpenAgain();
  const auto refused = ShareSlot::Take(std::move(*fd), *table.FindRun("1"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kExhausted);
}

}  // namespace
}  // namespace cuspan
