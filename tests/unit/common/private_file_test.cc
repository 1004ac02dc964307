#include "common/private_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/boot_id.h"

namespace cuspan {
namespace {

namespace fs = std::filesystem;

class PrivateFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "cuspan-private-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    base_ = path;
    folder_.Reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override { fs::remove_all(base_); }
  std::string Content(std::uint64_t most_bytes = 100) const {
    const auto file = OpenPrivateFile(folder_.get(), "file", most_bytes);
    if (!file) return "none";
    std::string content(file->bytes, '\0');
    EXPECT_TRUE(cuspan::ReadAll(file->file.get(), content.data(), content.size()));
    EXPECT_FALSE(cuspan::ReadAll(file->file.get(), content.data(), 1)) << "nothing is left";
    return content;
  }

  fs::path base_;
  UniqueFd folder_;
};

TEST_F(PrivateFileTest, AReplacedFileHasAllItsParts) {
  EXPECT_EQ(Content(), "none");
  ASSERT_TRUE(ReplaceFile(folder_.get(), "new", "file", {"one", "", "two"}).ok());
  EXPECT_EQ(Content(), "onetwo");
  ASSERT_TRUE(ReplaceFile(folder_.get(), "new", "file", {"three"}).ok());
  EXPECT_EQ(Content(), "three");
  EXPECT_FALSE(fs::exists(base_ / "new"));
}

TEST_F(PrivateFileTest, WhatAKilledProcessLeftIsReplaced) {
  std::ofstream(base_ / "new") << "half of";
  ASSERT_TRUE(ReplaceFile(folder_.get(), "new", "file", {"all"}).ok());
  EXPECT_EQ(Content(), "all");
  EXPECT_FALSE(fs::exists(base_ / "new"));
}

TEST_F(PrivateFileTest, AFailureLeavesNothingAndSaysWhy) {
  fs::create_directory(base_ / "file");
  const Status status = ReplaceFile(folder_.get(), "new", "file", {"all"});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message(), "");
  EXPECT_FALSE(fs::exists(base_ / "new"));
}

TEST_F(PrivateFileTest, OnlySmallRegularFilesOfThisUserAreOpened) {
  ASSERT_TRUE(ReplaceFile(folder_.get(), "new", "file", {"0123456789"}).ok());
  EXPECT_EQ(Content(10), "0123456789");
  EXPECT_EQ(Content(9), "none");
  fs::permissions(base_ / "file", fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(Content(), "none");
  fs::remove(base_ / "file");
  fs::create_symlink("other", base_ / "file");
  std::ofstream(base_ / "other") << "other";
  EXPECT_EQ(Content(), "none");
  fs::remove(base_ / "file");
  ASSERT_EQ(::mkfifo((base_ / "file").c_str(), 0600), 0);
  EXPECT_EQ(Content(), "none");
}

TEST(BootIdTest, IsOneOfThisBoot) {
  EXPECT_NE(BootId(), "");
  EXPECT_EQ(BootId(), BootId());
}

}  // namespace
}  // namespace cuspan
