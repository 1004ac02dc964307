#include "common/regular_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cuspan {
namespace {

class RegularFileTest : public ::testing::Test {
 protected:
  RegularFileTest() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~RegularFileTest() override { std::filesystem::remove_all(folder_); }
  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  void Make(const std::string& name) const { std::ofstream(At(name)) << "some bytes"; }

  std::string folder_ = ::testing::TempDir() + "regular_XXXXXX";
};

TEST_F(RegularFileTest, FilesAreOpened) {
  Make("file");
  std::filesystem::create_symlink("file", At("link"));
  for (const char* name : {"file", "link"})
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
      const OpenedFile opened = OpenRegular(At(name), flags);
      ASSERT_TRUE(opened.fd.valid());
      EXPECT_EQ(::fcntl(opened.fd.get(), F_GETFL) & O_ACCMODE, flags);
      EXPECT_EQ(::fcntl(opened.fd.get(), F_GETFD), FD_CLOEXEC);
    }
}

TEST_F(RegularFileTest, OtherKindsAreNot) {
  ASSERT_EQ(::mkfifo(At("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", At("device"));
  for (const char* name : {"", "fifo", "device"})
    for (const int flags : {O_RDONLY, O_RDWR | O_CREAT}) {
      const OpenedFile opened = OpenRegular(At(name), flags);
      EXPECT_FALSE(opened.fd.valid());
      EXPECT_EQ(opened.error, OpenedFile::kNotRegular) << name;
    }
}

TEST_F(RegularFileTest, FailuresAreTheSystems) {
  EXPECT_EQ(OpenRegular(At("none"), O_RDONLY).error, ENOENT);
  EXPECT_EQ(OpenRegular(At("none/file"), O_RDWR | O_CREAT).error, ENOENT);
  Make("file");
  EXPECT_EQ(OpenRegular(At("file/x"), O_RDONLY).error, ENOTDIR);
  EXPECT_EQ(OpenRegular(At(std::string(300, 'x')), O_RDONLY).error, ENAMETOOLONG);
  // A link to nowhere is not created.
  std::filesystem::create_symlink("none", At("link"));
  EXPECT_EQ(OpenRegular(At("link"), O_RDWR | O_CREAT).error, EEXIST);
  EXPECT_FALSE(std::filesystem::exists(At("none")));
}

TEST_F(RegularFileTest, FilesAreCreatedAndEmptied) {
  Make("file");
  EXPECT_TRUE(OpenRegular(At("file"), O_RDWR | O_CREAT).fd.valid());
  EXPECT_EQ(std::filesystem::file_size(At("file")), 10U);
  EXPECT_TRUE(OpenRegular(At("file"), O_RDWR | O_CREAT | O_TRUNC).fd.valid());
  EXPECT_EQ(std::filesystem::file_size(At("file")), 0U);
  const OpenedFile made = OpenRegular(At("new"), O_WRONLY | O_CREAT);
  ASSERT_TRUE(made.fd.valid());
  EXPECT_EQ(::write(made.fd.get(), "x", 1), 1);
  EXPECT_EQ(std::filesystem::file_size(At("new")), 1U);
}

}  // namespace
}  // namespace cuspan
