// Tests the memory limits of runs sharing a GPU.
#include "protocol/sharing/share_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "protocol/sharing/share_slot.h"
#include "protocol/sharing/share_table.h"

namespace cuspan {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kOnGpu = 64 * kGiB;  // A context needs 1 GiB of it.

class ShareMemoryTest : public ::testing::Test {
 protected:
  ShareMemoryTest() {
    char name[] = "/dev/shm/cuspan-test-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~ShareMemoryTest() override { std::filesystem::remove_all(folder); }

  ShareTable Table() {
    Result<ShareTable> table = ShareTable::OpenOrCreate(folder, "host", "gpu");
    EXPECT_TRUE(table.ok()) << table.status().message();
    table->SetGpuMemory(kOnGpu);
    return std::move(*table);
  }
  static Status Join(ShareTable& table, const std::string& run, std::uint64_t cap,
                     bool swap = false) {
    ShareTerms terms;
    terms.shared = true;
    terms.most_runs = swap ? 3 : 16;
    terms.memory = cap;
    terms.swap = swap;
    return table.JoinRun(run, "me", "app", terms);
  }
  struct Session {
    std::unique_ptr<ShareSlot> seat;
    std::unique_ptr<ShareMemory> memory;
  };
  static Session Begin(ShareTable& table, const std::string& run) {
    Session session;
    session.seat = std::move(*ShareSlot::Take(std::move(*table.OpenAgain()), *table.FindRun(run)));
    session.memory = std::move(*session.seat->OpenMemory());
    return session;
  }

  std::string folder;
};

TEST_F(ShareMemoryTest, WithoutCapsOnlyTheDriverDecides) {
  ShareTable first = Table(), second = Table();
  ASSERT_TRUE(Join(first, "1", 0).ok());
  ASSERT_TRUE(Join(second, "2", 0).ok());
  const Session session = Begin(first, "1");
  EXPECT_TRUE(session.memory->Take(kOnGpu * 2));
  EXPECT_EQ(session.memory->Query().cap, 0U);
  EXPECT_EQ(session.memory->Query().used, kOnGpu * 2);
}

TEST_F(ShareMemoryTest, ACapHoldsToTheByteForAllSessionsOfTheRun) {
  ShareTable table = Table();
  ASSERT_TRUE(Join(table, "1", 5 * kGiB).ok());
  const Session a = Begin(table, "1"), b = Begin(table, "1");
  EXPECT_FALSE(a.memory->Take(5 * kGiB + 1));
  EXPECT_TRUE(a.memory->Take(3 * kGiB));
  EXPECT_FALSE(b.memory->Take(2 * kGiB + 1));
  EXPECT_TRUE(b.memory->Take(2 * kGiB));
  EXPECT_FALSE(a.memory->Take(1));
  EXPECT_EQ(a.memory->Query().used, 5 * kGiB);
  EXPECT_EQ(b.memory->Query().left, 0U);
  a.memory->Give(1);
  EXPECT_TRUE(b.memory->Take(1));
  EXPECT_FALSE(b.memory->Take(1));
}

TEST_F(ShareMemoryTest, WhatASessionHadIsFreeWhenItHasLeft) {
  ShareTable table = Table();
  ASSERT_TRUE(Join(table, "1", kGiB).ok());
  const Session a = Begin(table, "1");
  {
    const Session b = Begin(table, "1");
    EXPECT_TRUE(b.memory->Take(kGiB));
    EXPECT_FALSE(a.memory->Take(1));
  }
  EXPECT_TRUE(a.memory->Take(kGiB));
}

TEST_F(ShareMemoryTest, WhatAKilledSessionHadIsFree) {
  ShareTable table = Table();
  ASSERT_TRUE(Join(table, "1", kGiB).ok());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Session own = Begin(table, "1");
    const char told = own.memory->Take(kGiB) ? 'y' : 'n';
    [[maybe_unused]] const ssize_t written = ::write(ends[1], &told, 1);
    for (;;) ::pause();
  }
  char told = 0;
  ASSERT_EQ(::read(ends[0], &told, 1), 1);
  EXPECT_EQ(told, 'y');
  const Session a = Begin(table, "1");
  EXPECT_FALSE(a.memory->Take(1));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(a.memory->Take(kGiB));
}

TEST_F(ShareMemoryTest, WhatIsKeptForARunIsNoOthers) {
  ShareTable capped = Table(), open = Table();
  ASSERT_TRUE(Join(capped, "1", 40 * kGiB).ok());
  ASSERT_TRUE(Join(open, "2", 0).ok());
  const Session a = Begin(capped, "1"), b = Begin(open, "2");
  // Memory for both contexts is reserved, too.
  EXPECT_EQ(b.memory->Query().left, 22 * kGiB);
  EXPECT_FALSE(b.memory->Take(22 * kGiB + 1));
  EXPECT_TRUE(b.memory->Take(22 * kGiB));
  EXPECT_TRUE(a.memory->Take(40 * kGiB));
}

TEST_F(ShareMemoryTest, ARunWhoseMemoryIsNotThereDoesNotComeIn) {
  ShareTable first = Table(), second = Table(), third = Table();
  ASSERT_TRUE(Join(first, "1", 40 * kGiB).ok());
  const Status refused = Join(second, "2", 22 * kGiB + 1);
  EXPECT_EQ(refused.code(), StatusCode::kExhausted);
  EXPECT_NE(refused.message().find("65536 MiB"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("40960 MiB"), std::string::npos) << refused.message();
  EXPECT_TRUE(Join(second, "2", 22 * kGiB).ok());
  EXPECT_FALSE(Join(third, "3", ~std::uint64_t{0}).ok());
  EXPECT_FALSE(Join(third, "3", 1).ok());
}

TEST_F(ShareMemoryTest, ARunWithoutCapKeepsWhatItHas) {
  ShareTable open = Table(), capped = Table();
  ASSERT_TRUE(Join(open, "1", 0).ok());
  const Session a = Begin(open, "1");
  ASSERT_TRUE(a.memory->Take(50 * kGiB));
  EXPECT_FALSE(Join(capped, "2", 13 * kGiB).ok());
  ASSERT_TRUE(Join(capped, "2", 12 * kGiB).ok());
  EXPECT_FALSE(a.memory->Take(1));
}

TEST_F(ShareMemoryTest, TheFirstRunMayHaveAllThatThereIs) {
  ShareTable table = Table();
  EXPECT_TRUE(Join(table, "1", kOnGpu).ok());
  const Session a = Begin(table, "1");
  EXPECT_TRUE(a.memory->Take(kOnGpu));
}

TEST_F(ShareMemoryTest, ManyThreadsTakeNoMoreThanTheCap) {
  ShareTable table = Table();
  ASSERT_TRUE(Join(table, "1", 1000).ok());
  const Session a = Begin(table, "1"), b = Begin(table, "1");
  std::atomic<std::uint64_t> had = 0;
  std::vector<std::thread> threads;
  for (const Session* session : {&a, &b, &a, &b})
    threads.emplace_back([&had, session] {
      for (int i = 0; i < 400; ++i) had += session->memory->Take(1) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(had, 1000U);
}

TEST_F(ShareMemoryTest, WhoOnlyLooksTakesNothing) {
  ShareTable table = Table();
  ASSERT_TRUE(Join(table, "1", kGiB).ok());
  const Session a = Begin(table, "1");
  ASSERT_TRUE(a.memory->Take(10));
  const auto looks =
      ShareMemory::Open(std::move(*table.OpenAgain()), *table.FindRun("1"), std::nullopt);
  ASSERT_TRUE(looks.ok());
  EXPECT_EQ((*looks)->Query().used, 10U);
  EXPECT_FALSE((*looks)->Take(1));
  (*looks)->Give(10);
  EXPECT_EQ((*looks)->Query().used, 10U);
  EXPECT_FALSE(ShareMemory::Open(std::move(*table.OpenAgain()), 16, std::nullopt).ok());
  const Result<std::vector<SharingRun>> runs = table.Query();
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(runs->front().memory, 10U);
  EXPECT_EQ(runs->front().terms.memory, kGiB);
}

// --- Runs with swappable memory

TEST_F(ShareMemoryTest, ARunThatSwapsMayHaveAllButContextsAndCaps) {
  ShareTable first = Table(), second = Table(), third = Table();
  ASSERT_TRUE(Join(first, "1", 0, true).ok());
  ASSERT_TRUE(Join(second, "2", 0, true).ok());
  ASSERT_TRUE(Join(third, "3", 10 * kGiB).ok());
  const Session a = Begin(first, "1"), b = Begin(second, "2");
  EXPECT_TRUE(a.memory->Take(51 * kGiB));
  EXPECT_FALSE(a.memory->Take(1));
  EXPECT_TRUE(b.memory->Take(51 * kGiB)) << "the other makes room";
  EXPECT_EQ(b.memory->Query().left, 0U);
}

TEST_F(ShareMemoryTest, OthersAreAskedForWhatLacks) {
  ShareTable first = Table(), second = Table();
  ASSERT_TRUE(Join(first, "1", 0, true).ok());
  ASSERT_TRUE(Join(second, "2", 0, true).ok());
  const Session a = Begin(first, "1"), more = Begin(first, "1"), b = Begin(second, "2");
  EXPECT_TRUE(a.memory->Take(30 * kGiB));
  EXPECT_TRUE(more.memory->Take(10 * kGiB));
  EXPECT_TRUE(a.memory->HasRoom());
  EXPECT_TRUE(b.memory->Take(21 * kGiB));
  EXPECT_TRUE(b.memory->HasRoom()) << "61 GiB and three contexts";
  EXPECT_EQ(a.seat->evict(), 0U);
  EXPECT_TRUE(b.memory->Take(10 * kGiB));
  EXPECT_FALSE(b.memory->HasRoom());
  EXPECT_EQ(a.seat->evict(), 10 * kGiB);
  EXPECT_EQ(more.seat->evict(), 0U) << "one is enough";
  EXPECT_TRUE(b.memory->Take(22 * kGiB));
  EXPECT_FALSE(b.memory->HasRoom());
  EXPECT_EQ(a.seat->evict(), 30 * kGiB);
  EXPECT_EQ(more.seat->evict(), 2 * kGiB);
  EXPECT_EQ(b.seat->evict(), 0U);
  b.memory->Give(22 * kGiB);
  const std::uint32_t rings = b.seat->rings();
  a.memory->SetOut(10 * kGiB);
  EXPECT_EQ(a.seat->evict(), 0U);
  EXPECT_EQ(more.seat->evict(), 0U) << "nothing lacks any more";
  EXPECT_NE(b.seat->rings(), rings);
  EXPECT_TRUE(b.memory->HasRoom());
  // The same in the other direction.
  a.memory->SetOut(0);
  EXPECT_FALSE(a.memory->HasRoom());
  EXPECT_EQ(b.seat->evict(), 10 * kGiB);
  b.memory->Give(32 * kGiB);
  EXPECT_TRUE(a.memory->HasRoom());
  EXPECT_EQ(b.seat->evict(), 0U) << "it is not needed any more";
}

TEST_F(ShareMemoryTest, WhatCanNotGoLeavesRoomForAllThatIsThere) {
  ShareTable first = Table(), second = Table(), third = Table();
  ASSERT_TRUE(Join(first, "1", 0, true).ok());
  ASSERT_TRUE(Join(second, "2", 0, true).ok());
  ASSERT_TRUE(Join(third, "3", 10 * kGiB).ok());
  const Session a = Begin(first, "1"), b = Begin(second, "2"), c = Begin(third, "3");
  EXPECT_TRUE(a.memory->Take(41 * kGiB));
  EXPECT_FALSE(b.memory->Take(10 * kGiB + 1, /*fixed=*/true)) << "51 GiB are there for both";
  EXPECT_TRUE(b.memory->Take(10 * kGiB, /*fixed=*/true));
  EXPECT_TRUE(b.memory->Take(41 * kGiB)) << "which can go";
  EXPECT_FALSE(a.memory->Take(1));
  EXPECT_TRUE(c.memory->Take(10 * kGiB, /*fixed=*/true)) << "its own";
  b.memory->Give(10 * kGiB, /*fixed=*/true);
  EXPECT_TRUE(a.memory->Take(10 * kGiB));
}

TEST_F(ShareMemoryTest, WhoDiedNeedsNoRoom) {
  ShareTable first = Table();
  ASSERT_TRUE(Join(first, "1", 0, true).ok());
  const Session a = Begin(first, "1");
  EXPECT_TRUE(a.memory->Take(50 * kGiB));
  {
    ShareTable second = Table();
    ASSERT_TRUE(Join(second, "2", 0, true).ok());
    const Session b = Begin(second, "2");
    EXPECT_TRUE(b.memory->Take(50 * kGiB));
    EXPECT_FALSE(a.memory->HasRoom());
  }
  EXPECT_TRUE(a.memory->HasRoom());
}

}  // namespace
}  // namespace cuspan
