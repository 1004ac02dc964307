#include "common/same_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace cuspan {
namespace {

class SameFileTest : public ::testing::Test {
 protected:
  SameFileTest() : fd_(::mkstemp(path_.data())) {}
  ~SameFileTest() override { ::unlink(path_.c_str()); }

  FileBytes Write(const std::vector<std::byte>& contents, int flags = 0) const {
    EXPECT_EQ(::ftruncate(fd_.get(), 0), 0);
    EXPECT_EQ(::pwrite(fd_.get(), contents.data(), contents.size(), 0),
              static_cast<ssize_t>(contents.size()));
    UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | flags));
    const std::optional<FileBytes::Access> access = FileBytes::AccessOf(fd.get());
    return {std::move(fd), *access};
  }
  static std::vector<std::byte> Bytes(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 253);
    return bytes;
  }

  std::string path_ = ::testing::TempDir() + "same_file_XXXXXX";
  const UniqueFd fd_;
};

TEST_F(SameFileTest, SumsOfTheSameBytesAreEqual) {
  for (const std::size_t bytes : {1, 4095, 4096, 4097, 40'960, 1'000'001}) {
    std::vector<std::byte> contents = Bytes(bytes);
    const std::optional<std::uint64_t> sum = SumOfPages(Write(contents), bytes, 1);
    ASSERT_TRUE(sum);
    EXPECT_EQ(SumOfPages(Write(contents, O_DIRECT), bytes, 1), sum);
    for (const std::size_t other : {std::size_t{0}, bytes - 1}) {
      contents[other] ^= std::byte{1};
      EXPECT_NE(SumOfPages(Write(contents), bytes, 1), sum);
      contents[other] ^= std::byte{1};
    }
  }
}

TEST_F(SameFileTest, SeedsChooseOtherPages) {
  const std::size_t bytes = 4'000'000;
  std::vector<std::byte> contents = Bytes(bytes);
  std::vector<std::uint64_t> sums;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    sums.push_back(*SumOfPages(Write(contents), bytes, seed));
  // One page of 977: some of the seeds find it, and most do not.
  contents[500'000] ^= std::byte{1};
  const FileBytes changed = Write(contents);
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    if (SumOfPages(changed, bytes, seed) != sums[seed - 1]) ++found;
  EXPECT_GT(found, 2);
  EXPECT_LT(found, 60);
}

TEST_F(SameFileTest, SmallFilesAreSummedAsAWhole) {
  for (const std::size_t bytes : {100'000, 1 << 20}) {
    std::vector<std::byte> contents = Bytes(bytes);
    const std::optional<std::uint64_t> sum = SumOfPages(Write(contents), bytes, 1);
    for (std::size_t at = 0; at < bytes; at += 4096) {
      contents[at] ^= std::byte{1};
      ASSERT_NE(SumOfPages(Write(contents), bytes, 1), sum);
      contents[at] ^= std::byte{1};
    }
  }
}

TEST_F(SameFileTest, NothingIsKnownOfBytesThatAreNotThere) {
  const FileBytes file = Write(Bytes(10'000));
  EXPECT_FALSE(SumOfPages(file, 0, 1));
  EXPECT_FALSE(SumOfPages(file, 10'001, 1));
  EXPECT_FALSE(SumOfPages(FileBytes(), 10, 1));
}

TEST_F(SameFileTest, ChangesAreSeenOnceTheFileIsSettled) {
  const FileBytes file = Write(Bytes(10'000));
  const auto state = [&] { return FileState::Of(file.fd()); };
  ASSERT_TRUE(state());
  EXPECT_EQ(state()->bytes, 10'000U);
  EXPECT_FALSE(state()->settled());
  const auto settle = [&] {
    while (!state()->settled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return *state();
  };
  FileState before = settle();
  EXPECT_EQ(state(), before);
  // The same byte again, and the same time of the last write.
  ASSERT_EQ(::pwrite(fd_.get(), "\0", 1, 0), 1);
  const timespec times[] = {
      {0, UTIME_OMIT},
      {before.modified.count() / 1'000'000'000, before.modified.count() % 1'000'000'000}};
  ASSERT_EQ(::futimens(fd_.get(), times), 0);
  EXPECT_EQ(state()->modified, before.modified);
  EXPECT_NE(state(), before);
  before = settle();
  ASSERT_EQ(::ftruncate(fd_.get(), 5), 0);
  EXPECT_NE(state(), before);
  ::unlink(path_.c_str());
  EXPECT_FALSE(state());
}

TEST_F(SameFileTest, OtherKindsHaveNoState) {
  EXPECT_FALSE(FileState::Of(-1));
  EXPECT_FALSE(FileState::Of(UniqueFd(::open("/", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(FileState::Of(UniqueFd(::open("/dev/zero", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(FileState::Of(UniqueFd(::memfd_create("file", MFD_CLOEXEC)).get()));
}

}  // namespace
}  // namespace cuspan
