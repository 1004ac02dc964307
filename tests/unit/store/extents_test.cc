#include "store/engine/extents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/store/fake_driver.h"
#include "tests/unit/store/numbered_file.h"

namespace cuspan::store {
namespace {

// Four whole extents and a short one.
constexpr std::uint64_t kFile = 4 * kExtentBytes + 777;
constexpr std::uint64_t kExtents = 5;
constexpr std::uint64_t kLine = 4096;

class ExtentsTest : public FakeDriverTest {
 protected:
  ExtentsTest() : file_(kFile) {}

  std::unique_ptr<Extents> Make(ResidentWay way, std::uint64_t line = kLine) {
    return std::make_unique<Extents>(file_.file(), kFile, line,
                                     ExtentTerms{FakeEngine(), way, &budget_});
  }
  // Pays until the extent is wanted. Returns the number of reads, or 0 if as many as a file has
  // lines do not suffice.
  static std::uint64_t PayWhole(Extents& extents, std::uint64_t extent, bool cached = true,
                                std::uint64_t line = kLine) {
    for (std::uint64_t reads = 1; reads <= kFile / line; ++reads)
      if (extents.Pay(extent, cached)) return reads;
    return 0;
  }
  static void PayReads(Extents& extents, std::uint64_t extent, std::uint64_t reads) {
    for (std::uint64_t i = 0; i < reads; ++i) EXPECT_FALSE(extents.Pay(extent, true));
  }
  static void LockAllWanted(Extents& extents) {
    while (extents.LockWanted()) continue;
  }
  static std::uint64_t BytesOf(std::uint64_t extent) {
    return std::min(kExtentBytes, kFile - extent * kExtentBytes);
  }
  // True if the extent is resident. Checks its bytes.
  bool IsResident(const Extents& extents, std::uint64_t extent) {
    const std::uint64_t address = extents.AddressOf(extent);
    if (address == 0) return false;
    EXPECT_EQ(address % 4096, 0u);
    EXPECT_TRUE(file_.Has({reinterpret_cast<const std::byte*>(address), BytesOf(extent)},
                          extent * kExtentBytes));
    return true;
  }
  std::vector<std::uint64_t> ResidentOnes(const Extents& extents) {
    std::vector<std::uint64_t> resident;
    for (std::uint64_t extent = 0; extent < kExtents; ++extent)
      if (IsResident(extents, extent)) resident.push_back(extent);
    return resident;
  }
  bool BudgetIsUnused() { return budget_.Take(budget_.limit()).valid(); }

  using Numbers = std::vector<std::uint64_t>;
  NumberedFile file_;
  MemoryBudget budget_{kFile};
};

TEST_F(ExtentsTest, WantedExactlyOnce) {
  for (const std::uint64_t line : {512, 4096, 65536})
    for (const bool cached : {true, false}) {
      const std::unique_ptr<Extents> extents = Make(ResidentWay::kMapped, line);
      const std::uint64_t reads = PayWhole(*extents, 3, cached, line);
      // Reads of all lines cost more than the extent, and a single one less.
      EXPECT_GT(reads, 1u);
      EXPECT_LE(reads, kExtentBytes / line);
      for (int i = 0; i < 10000; ++i) ASSERT_FALSE(extents->Pay(3, i % 2 == 0));
      EXPECT_EQ(PayWhole(*extents, 4, cached, line), reads);
      EXPECT_EQ(ResidentOnes(*extents), Numbers{});
      LockAllWanted(*extents);
      for (int i = 0; i < 10000; ++i) ASSERT_FALSE(extents->Pay(3, i % 2 == 0));
      EXPECT_EQ(ResidentOnes(*extents), (Numbers{3, 4}));
    }
}

TEST_F(ExtentsTest, WantedExactlyOnceByThreads) {
  // All threads pay for the same extent at the same time.
  constexpr int kRounds = 300;
  std::vector<std::unique_ptr<Extents>> rounds;
  for (int i = 0; i < kRounds; ++i) rounds.push_back(Make(ResidentWay::kCopied));
  std::vector<std::atomic<int>> wanted(kRounds * kExtents);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < wanted.size(); ++n)
        while (wanted[n] == 0)
          if (rounds[n / kExtents]->Pay(n % kExtents, n % 2 == 0)) ++wanted[n];
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& count : wanted) EXPECT_EQ(count, 1);
}

TEST_F(ExtentsTest, BothWays) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied, ResidentWay::kAuto}) {
    std::unique_ptr<Extents> extents = Make(way);
    EXPECT_FALSE(extents->LockWanted());
    std::uint64_t bytes = 0;
    for (const std::uint64_t extent : {4, 1}) {
      EXPECT_NE(PayWhole(*extents, extent), 0u);
      EXPECT_EQ(extents->AddressOf(extent), 0u);
      EXPECT_TRUE(extents->LockWanted());
      EXPECT_FALSE(extents->LockWanted());
      EXPECT_TRUE(IsResident(*extents, extent));
      bytes += BytesOf(extent);
      EXPECT_EQ(extents->resident_bytes(), bytes);
    }
    EXPECT_EQ(ResidentOnes(*extents), (Numbers{1, 4}));
    if (way != ResidentWay::kAuto) {
      EXPECT_EQ(extents->copied(), way == ResidentWay::kCopied);
    }
    EXPECT_EQ((fake_driver.flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0, extents->copied());
    for (const std::uint64_t extent : {0, 2, 3}) EXPECT_NE(PayWhole(*extents, extent), 0u);
    LockAllWanted(*extents);
    EXPECT_EQ(ResidentOnes(*extents), (Numbers{0, 1, 2, 3, 4}));
    EXPECT_EQ(extents->resident_bytes(), kFile);
    EXPECT_FALSE(budget_.Take(1).valid());
    extents.reset();
    EXPECT_EQ(FakeRegisteredBytes(), 0u);
    EXPECT_TRUE(BudgetIsUnused());
  }
}

TEST_F(ExtentsTest, NeighboursThatHavePaidAPart) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    const std::unique_ptr<Extents> extents = Make(way);
    const std::uint64_t reads = PayWhole(*extents, 2);
    PayReads(*extents, 1, reads / 2);
    PayReads(*extents, 3, reads / 2);
    PayReads(*extents, 0, 1);
    fake_driver.registrations = 0;
    EXPECT_TRUE(extents->LockWanted());
    EXPECT_FALSE(extents->LockWanted());
    EXPECT_EQ(ResidentOnes(*extents), (Numbers{1, 2, 3}));
    EXPECT_EQ(fake_driver.registrations, 1);
    // They are never wanted again.
    for (const std::uint64_t extent : {1, 2, 3}) EXPECT_EQ(PayWhole(*extents, extent), 0u);
    // One beside resident ones, and the file's last one.
    for (const std::uint64_t extent : {0, 4}) {
      EXPECT_NE(PayWhole(*extents, extent), 0u);
      LockAllWanted(*extents);
      EXPECT_TRUE(IsResident(*extents, extent));
    }
  }
}

TEST_F(ExtentsTest, ManyWantedNeighbours) {
  constexpr std::uint64_t kMany = 150;
  file_.Resize(kMany * kExtentBytes);
  MemoryBudget budget(kMany * kExtentBytes);
  Extents extents(file_.file(), kMany * kExtentBytes, kLine,
                  {FakeEngine(), ResidentWay::kMapped, &budget});
  for (std::uint64_t extent = 0; extent < kMany; ++extent)
    EXPECT_NE(PayWhole(extents, (extent * 7 + 40) % kMany), 0u);
  LockAllWanted(extents);
  for (std::uint64_t extent = 0; extent < kMany; ++extent)
    EXPECT_NE(extents.AddressOf(extent), 0u) << extent;
  EXPECT_EQ(extents.resident_bytes(), kMany * kExtentBytes);
}

TEST_F(ExtentsTest, BudgetIsTooSmall) {
  MemoryBudget budget(2 * kExtentBytes);
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied, ResidentWay::kAuto}) {
    Extents extents(file_.file(), kFile, kLine, {FakeEngine(), way, &budget});
    for (const std::uint64_t extent : {0, 2, 4}) {
      EXPECT_NE(PayWhole(extents, extent), 0u);
      LockAllWanted(extents);
    }
    EXPECT_EQ(ResidentOnes(extents), (Numbers{0, 2}));
    // It pays once more, in vain.
    EXPECT_NE(PayWhole(extents, 4), 0u);
    LockAllWanted(extents);
    EXPECT_EQ(ResidentOnes(extents), (Numbers{0, 2}));
    EXPECT_EQ(extents.resident_bytes(), 2 * kExtentBytes);
  }
  EXPECT_TRUE(budget.Take(budget.limit()).valid());
}

TEST_F(ExtentsTest, MemoryThatIsFreeAgain) {
  MemoryBudget budget(kExtentBytes);
  Extents extents(file_.file(), kFile, kLine, {FakeEngine(), ResidentWay::kCopied, &budget});
  {
    const MemoryBudget::Share others = budget.Take(kExtentBytes);
    EXPECT_NE(PayWhole(extents, 1), 0u);
    LockAllWanted(extents);
    EXPECT_FALSE(IsResident(extents, 1));
  }
  EXPECT_NE(PayWhole(extents, 1), 0u);
  LockAllWanted(extents);
  EXPECT_TRUE(IsResident(extents, 1));
}

TEST_F(ExtentsTest, FilesThatMayNotBeLocked) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    MemoryBudget budget(kFile);
    bool may_lock = true;
    Extents extents(file_.file(), kFile, kLine, {FakeEngine(), way, &budget},
                    [&] { return may_lock; });
    EXPECT_NE(PayWhole(extents, 1), 0u);
    LockAllWanted(extents);
    may_lock = false;
    EXPECT_NE(PayWhole(extents, 3), 0u);
    LockAllWanted(extents);
    EXPECT_EQ(ResidentOnes(extents), Numbers{1});
  }
}

TEST_F(ExtentsTest, TheDriverRefusesTheFilesPages) {
  fake_driver.register_read_only = CUDA_ERROR_NOT_SUPPORTED;
  {
    const std::unique_ptr<Extents> extents = Make(ResidentWay::kAuto);
    for (const std::uint64_t extent : {4, 0}) {
      EXPECT_NE(PayWhole(*extents, extent), 0u);
      LockAllWanted(*extents);
      EXPECT_TRUE(IsResident(*extents, extent));
    }
    EXPECT_TRUE(extents->copied());
    EXPECT_EQ(extents->resident_bytes(), BytesOf(0) + BytesOf(4));
  }
  // Nothing else is allowed.
  const std::unique_ptr<Extents> extents = Make(ResidentWay::kMapped);
  EXPECT_NE(PayWhole(*extents, 1), 0u);
  LockAllWanted(*extents);
  EXPECT_EQ(ResidentOnes(*extents), Numbers{});
  EXPECT_EQ(PayWhole(*extents, 2), 0u);
  EXPECT_TRUE(BudgetIsUnused());
}

TEST_F(ExtentsTest, TheDriverCanNotLockFiles) {
  fake_driver.can_lock_files = 0;
  const std::unique_ptr<Extents> extents = Make(ResidentWay::kAuto);
  EXPECT_NE(PayWhole(*extents, 4), 0u);
  LockAllWanted(*extents);
  EXPECT_TRUE(IsResident(*extents, 4));
  EXPECT_TRUE(extents->copied());
}

TEST_F(ExtentsTest, ErrorsOfTheDriver) {
  for (CUresult FakeDriver::*const call :
       {&FakeDriver::set_current, &FakeDriver::register_memory, &FakeDriver::device_pointer})
    for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied, ResidentWay::kAuto}) {
      std::unique_ptr<Extents> extents = Make(way);
      EXPECT_NE(PayWhole(*extents, 1), 0u);
      fake_driver.*call = CUDA_ERROR_UNKNOWN;
      LockAllWanted(*extents);
      Works();
      EXPECT_EQ(ResidentOnes(*extents), Numbers{});
      EXPECT_EQ(extents->resident_bytes(), 0u);
      EXPECT_TRUE(BudgetIsUnused());
      extents.reset();
      EXPECT_EQ(FakeRegisteredBytes(), 0u);
    }
}

TEST_F(ExtentsTest, Off) {
  const std::unique_ptr<Extents> extents = Make(ResidentWay::kOff);
  for (std::uint64_t extent = 0; extent < kExtents; ++extent)
    EXPECT_EQ(PayWhole(*extents, extent), 0u);
  EXPECT_FALSE(extents->LockWanted());
  EXPECT_EQ(ResidentOnes(*extents), Numbers{});
}

TEST_F(ExtentsTest, TheFileIsShorter) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    const NumberedFile file(kFile);
    Extents extents(file.file(), kFile, kLine, {FakeEngine(), way, &budget_});
    file.Resize(kExtentBytes + 3 * 4096);
    for (const std::uint64_t extent : {4, 1, 0}) {
      EXPECT_NE(PayWhole(extents, extent), 0u);
      LockAllWanted(extents);
    }
    EXPECT_EQ(ResidentOnes(extents), Numbers{0});
    EXPECT_EQ(extents.resident_bytes(), kExtentBytes);
    // They are not wanted again.
    for (const std::uint64_t extent : {4, 1, 0}) EXPECT_EQ(PayWhole(extents, extent), 0u);
  }
}

TEST_F(ExtentsTest, NeighboursOfMissingExtents) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    const NumberedFile file(kFile);
    Extents extents(file.file(), kFile, kLine, {FakeEngine(), way, &budget_});
    file.Resize(2 * kExtentBytes + 3 * 4096);
    for (const std::uint64_t extent : {0, 1, 2, 3, 4}) EXPECT_NE(PayWhole(extents, extent), 0u);
    LockAllWanted(extents);
    EXPECT_EQ(ResidentOnes(extents), (Numbers{0, 1}));
    EXPECT_EQ(extents.resident_bytes(), 2 * kExtentBytes);
  }
  EXPECT_TRUE(BudgetIsUnused());
}

TEST_F(ExtentsTest, ThreadsPayWhileExtentsAreLocked) {
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied})
    for (int round = 0; round < 5; ++round) {
      const std::unique_ptr<Extents> extents = Make(way);
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < 3; ++i)
        threads.emplace_back([&, i] {
          std::mt19937 random(i);
          for (std::uint64_t extent = 0; extent < kExtents;) {
            extents->Pay(random() % kExtents, random() % 2 == 0);
            if (extents->AddressOf(extent) != 0) ++extent;
          }
        });
      while (extents->resident_bytes() != kFile)
        if (!extents->LockWanted()) std::this_thread::yield();
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(ResidentOnes(*extents), (Numbers{0, 1, 2, 3, 4}));
    }
}

}  // namespace
}  // namespace cuspan::store
