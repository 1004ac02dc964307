#include "common/file_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

namespace cuspan {
namespace {

constexpr std::uint64_t kBytes = (std::uint64_t{3} << 20) + 777;

// A file with known contents, for each kind of descriptor.
class FileBytesTest : public ::testing::TestWithParam<int> {
 protected:
  FileBytesTest() : contents_(kBytes) {
    for (std::size_t i = 0; i < contents_.size(); ++i)
      contents_[i] = static_cast<std::byte>(i * 7 + i / 253);
    const UniqueFd out(::mkstemp(path_.data()));
    EXPECT_EQ(::write(out.get(), contents_.data(), kBytes), static_cast<ssize_t>(kBytes));
  }
  ~FileBytesTest() override { ::unlink(path_.c_str()); }

  FileBytes Open(int flags) const {
    UniqueFd fd(::open(path_.c_str(), flags | GetParam() | O_CLOEXEC));
    EXPECT_TRUE(fd.valid());
    const std::optional<FileBytes::Access> access = FileBytes::AccessOf(fd.get());
    EXPECT_TRUE(access);
    return {std::move(fd), *access};
  }

  std::string path_ = ::testing::TempDir() + "file_bytes_XXXXXX";
  std::vector<std::byte> contents_;
};

TEST_P(FileBytesTest, ReadsAnyPartIntoAnyMemory) {
  const FileBytes file = Open(O_RDONLY);
  for (const std::uint64_t offset : {0, 1, 4095, 4096, 1'048'575, 1'048'576, 2'500'000})
    for (const std::uint64_t bytes : {0, 1, 4095, 4096, 8192, 100'001})
      for (const std::size_t place : {0, 1, 5}) {
        std::vector<std::byte> memory(bytes + 10, std::byte{9});
        EXPECT_EQ(file.Read({memory.data() + place, bytes}, offset), (FileOutcome{bytes, 0}));
        EXPECT_TRUE(std::equal(memory.begin() + static_cast<long>(place),
                               memory.begin() + static_cast<long>(place + bytes),
                               contents_.begin() + static_cast<long>(offset)));
        EXPECT_EQ(
            std::count(memory.begin(), memory.begin() + static_cast<long>(place), std::byte{9}),
            static_cast<long>(place));
        EXPECT_EQ(memory[place + bytes], std::byte{9});
      }
}

TEST_P(FileBytesTest, EndsAtTheEndOfTheFile) {
  const FileBytes file = Open(O_RDONLY);
  std::vector<std::byte> memory(std::size_t{2} << 20);
  EXPECT_EQ(file.Read(memory, kBytes - 10), (FileOutcome{10, 0}));
  EXPECT_EQ(file.Read(memory, kBytes - 1'500'001), (FileOutcome{1'500'001, 0}));
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + 1'500'001, contents_.end() - 1'500'001));
  EXPECT_EQ(file.Read(memory, kBytes), (FileOutcome{0, 0}));
  EXPECT_EQ(file.Read(memory, kBytes + 12'345'678), (FileOutcome{0, 0}));
}

TEST_P(FileBytesTest, WritesAnyPartAndNothingElse) {
  const FileBytes file = Open(O_RDWR);
  const std::vector<std::byte> from(100'005, std::byte{0xab});
  for (const std::uint64_t offset : {0, 1, 4096, 1'048'575, 2'999'990})
    for (const std::uint64_t bytes : {0, 1, 4095, 4096, 100'001}) {
      EXPECT_EQ(file.Write({from.data() + bytes % 3, bytes}, offset), (FileOutcome{bytes, 0}));
      std::fill_n(contents_.begin() + static_cast<long>(offset), bytes, std::byte{0xab});
    }
  // Longer than before, with a gap.
  EXPECT_EQ(file.Write({from.data(), 10}, kBytes + 5000), (FileOutcome{10, 0}));
  contents_.resize(kBytes + 5000);
  contents_.insert(contents_.end(), 10, std::byte{0xab});
  std::vector<std::byte> memory(contents_.size() + 1);
  EXPECT_EQ(file.Read(memory, 0), (FileOutcome{contents_.size(), 0}));
  memory.pop_back();
  EXPECT_EQ(memory, contents_);
}

TEST_P(FileBytesTest, TheOffsetOfTheDescriptorStays) {
  const FileBytes file = Open(O_RDWR);
  ASSERT_EQ(::lseek(file.fd(), 99, SEEK_SET), 99);
  std::vector<std::byte> memory(5000);
  EXPECT_EQ(file.Read(memory, 3).bytes, 5000U);
  EXPECT_EQ(file.Write(memory, 3).bytes, 5000U);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 99);
}

TEST_P(FileBytesTest, FailuresAreTheSystems) {
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(Open(O_WRONLY).Read(memory, 0), (FileOutcome{0, EBADF}));
  EXPECT_EQ(Open(O_RDONLY).Write({memory.data(), 4096}, 0).error, EBADF);
  EXPECT_EQ(FileBytes().Read(memory, 0), (FileOutcome{0, EBADF}));
}

TEST_P(FileBytesTest, AccessIsThatOfTheDescriptor) {
  EXPECT_TRUE(Open(O_RDONLY).access().reads);
  EXPECT_FALSE(Open(O_RDONLY).access().writes);
  EXPECT_FALSE(Open(O_WRONLY).access().reads);
  EXPECT_TRUE(Open(O_WRONLY).access().writes);
  EXPECT_TRUE(Open(O_RDWR | O_APPEND).access().appends);
  EXPECT_FALSE(Open(O_RDWR).access().appends);
  EXPECT_EQ(Open(O_RDWR).access().direct, GetParam() == O_DIRECT);
  EXPECT_FALSE(FileBytes::AccessOf(-1));
}

INSTANTIATE_TEST_SUITE_P(, FileBytesTest, ::testing::Values(0, O_DIRECT),
                         [](const auto& kind) { return kind.param == 0 ? "Cached" : "Direct"; });

TEST(FileBytes, WhatIsCachedIsReadAtOnceAndWhole) {
  const UniqueFd memory(::memfd_create("file_bytes", MFD_CLOEXEC));
  ASSERT_EQ(::write(memory.get(), "some text", 9), 9);
  const FileBytes file(UniqueFd(::dup(memory.get())), *FileBytes::AccessOf(memory.get()));
  std::vector<std::byte> text(9);
  // Some file systems can not tell, and none has bytes behind the end.
  if (file.ReadCached(text, 0)) {
    EXPECT_EQ(text[0], std::byte{'s'});
  }
  EXPECT_FALSE(file.ReadCached(text, 1));
}

TEST(FileBytes, AWriteThatTheSystemStopsSaysHowFarItCame) {
  const UniqueFd memory(::memfd_create("file_bytes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), 8192), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  const FileBytes file(UniqueFd(::dup(memory.get())), *FileBytes::AccessOf(memory.get()));
  const std::vector<std::byte> from(16'384);
  const FileOutcome outcome = file.Write(from, 0);
  EXPECT_LE(outcome.bytes, 8192U);
  EXPECT_EQ(outcome.error, EPERM);
}

}  // namespace
}  // namespace cuspan
