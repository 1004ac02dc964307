#include "store/engine/resident_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/store/fake_driver.h"

namespace cuspan::store {
namespace {

class ResidentFileTest : public FakeDriverTest {
 protected:
  static constexpr std::uint64_t kPiece = std::uint64_t{128} << 20;

  // A file of this size, with a text at each offset.
  FileBytes Make(std::uint64_t bytes) {
    char path[] = "/var/tmp/resident_file_XXXXXX";
    UniqueFd file(::mkstemp(path));
    ::unlink(path);
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    for (const std::uint64_t offset : {std::uint64_t{0}, kPiece, bytes - 5})
      if (offset + 5 <= bytes) {
        EXPECT_EQ(::pwrite(file.get(), "bytes", 5, static_cast<off_t>(offset)), 5);
      }
    return FileBytes(std::move(file), {true, true, false, false});
  }
  Result<std::unique_ptr<ResidentFile>> Lock(const FileBytes& file, std::uint64_t bytes,
                                             ResidentWay way) {
    return ResidentFile::Make(FakeEngine(), file, bytes, way, 3, budget_, stop_);
  }

  MemoryBudget budget_{std::uint64_t{1} << 30};
  std::atomic<bool> stop_ = false;
};

TEST_F(ResidentFileTest, BothWays) {
  for (const std::uint64_t bytes :
       {std::uint64_t{5}, std::uint64_t{4097}, kPiece, kPiece + 4096 + 5})
    for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
      const FileBytes file = Make(bytes);
      const auto resident = Lock(file, bytes, way);
      ASSERT_TRUE(resident.ok()) << resident.status().message();
      EXPECT_EQ((*resident)->copied(), way == ResidentWay::kCopied);
      EXPECT_EQ((fake_driver.flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0,
                way == ResidentWay::kMapped);
      const auto* const memory = reinterpret_cast<const char*>((*resident)->address());
      EXPECT_EQ(std::memcmp(memory, "bytes", 5), 0);
      EXPECT_EQ(std::memcmp(memory + bytes - 5, "bytes", 5), 0);
      EXPECT_EQ(FakeRegisteredBytes(), (bytes + 4095) / 4096 * 4096);
    }
}

TEST_F(ResidentFileTest, FilesThatTheDriverCanNotLockAreCopied) {
  const FileBytes file = Make(4096);
  fake_driver.can_lock_files = 0;
  EXPECT_TRUE((*Lock(file, 4096, ResidentWay::kAuto))->copied());
  // A refusal for the file's pages, and none for the copy.
  EXPECT_EQ(Lock(file, 4096, ResidentWay::kOff).status().code(), StatusCode::kUnsupported);
}

TEST_F(ResidentFileTest, RefusedMemory) {
  const FileBytes file = Make(3 * kPiece);
  fake_driver.refused_calls_after = 1;
  const auto refused = Lock(file, 3 * kPiece, ResidentWay::kCopied);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  // All of the budget is there again.
  EXPECT_TRUE(budget_.Take(budget_.limit()).valid());
}

TEST_F(ResidentFileTest, FilesThatBecomeShorter) {
  const FileBytes file = Make(4096);
  for (const ResidentWay way : {ResidentWay::kMapped, ResidentWay::kCopied}) {
    const auto shorter = Lock(file, 3 * 4096, way);
    EXPECT_EQ(shorter.status().code(), StatusCode::kInternal) << shorter.status().message();
  }
}

TEST_F(ResidentFileTest, LargerThanTheBudget) {
  const FileBytes file = Make(4096);
  EXPECT_EQ(Lock(file, budget_.limit() + 1, ResidentWay::kMapped).status().code(),
            StatusCode::kExhausted);
}

TEST_F(ResidentFileTest, EndsWithTheSession) {
  const FileBytes file = Make(4096);
  stop_ = true;
  EXPECT_FALSE(Lock(file, 4096, ResidentWay::kCopied).ok());
}

}  // namespace
}  // namespace cuspan::store
