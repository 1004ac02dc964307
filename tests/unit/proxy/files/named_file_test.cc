// Files beneath a root: no name leads out of it.
#include "proxy/files/named_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace cuspan::proxy {
namespace {

namespace fs = std::filesystem;

class NamedFileTest : public ::testing::Test {
 protected:
  NamedFileTest() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    fs::create_directories(At("in/deep"));
    fs::create_directory(At("out"));
    Make("in/file", "inside");
    Make("in/deep/file", "inside");
    Make("out/file", "outside");
    Make("index", "outside");
    root_ = {"/named", At("in"), true};
  }
  ~NamedFileTest() override { fs::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  void Make(const std::string& name, const char* bytes) const { std::ofstream(At(name)) << bytes; }
  OpenedFile Open(const std::string& rest, int flags = O_RDONLY) const {
    return OpenBeneath({root_}, "/named/" + rest, flags);
  }
  static std::string BytesOf(const OpenedFile& opened) {
    std::string bytes(20, '\0');
    const ssize_t read = ::pread(opened.fd.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
    return bytes;
  }

  std::string folder_ = ::testing::TempDir() + "named_XXXXXX";
  FileRoot root_;
};

TEST_F(NamedFileTest, NamesInsideAreOpened) {
  fs::create_symlink("deep/file", At("in/link"));
  fs::create_symlink(At("in/deep"), At("in/folder"));
  fs::create_symlink("../in/file", At("in/around"));
  for (const char* name : {"file", "deep/file", "deep/../file", "./file", "/file", "deep//file",
                           "link", "folder/file", "folder/../file", "around"})
    EXPECT_EQ(BytesOf(Open(name)), "inside") << name;
}

TEST_F(NamedFileTest, NamesThatLeadOutAreNot) {
  fs::create_symlink(At("out/file"), At("in/link"));
  fs::create_symlink("../out", At("in/folder"));
  fs::create_symlink("folder/file", At("in/twice"));
  fs::create_symlink("/proc/self/root/etc/passwd", At("in/magic"));
  for (const char* name :
       {"../out/file", "deep/../../out/file", "link", "folder/file", "twice", "magic", "../index"})
    for (const int flags : {O_RDONLY, O_RDWR | O_CREAT | O_TRUNC}) {
      const OpenedFile opened = Open(name, flags);
      EXPECT_FALSE(opened.fd.valid()) << name;
      EXPECT_EQ(opened.error, EXDEV) << name;
    }
  for (const char* name : {"../new", "folder/new", "deep/../../new"}) {
    EXPECT_EQ(Open(name, O_WRONLY | O_CREAT).error, EXDEV) << name;
    EXPECT_FALSE(fs::exists(At("new")));
    EXPECT_FALSE(fs::exists(At("out/new")));
  }
  EXPECT_EQ(fs::file_size(At("out/file")), 7U);
}

TEST_F(NamedFileTest, OtherKindsAndFailuresAreNamed) {
  ASSERT_EQ(::mkfifo(At("in/fifo").c_str(), 0600), 0);
  for (const char* name : {"deep", ".", "", "fifo"})
    EXPECT_EQ(Open(name, O_RDONLY).error, OpenedFile::kNotRegular) << name;
  EXPECT_EQ(Open("none").error, ENOENT);
  EXPECT_EQ(Open("file/x").error, ENOTDIR);
  EXPECT_EQ(Open("none/new", O_WRONLY | O_CREAT).error, ENOENT);
  EXPECT_EQ(Open(std::string(5000, 'x')).error, ENAMETOOLONG);
  fs::create_symlink("loop", At("in/loop"));
  EXPECT_EQ(Open("loop").error, ELOOP);
  root_.there = At("nowhere");
  EXPECT_EQ(Open("file").error, ENOENT);
  root_.there = At("in/file");
  EXPECT_EQ(Open("x").error, ENOTDIR);
}

TEST_F(NamedFileTest, TheRootOfTheFileItselfSaysIfItIsWritten) {
  fs::create_symlink("deep", At("in/folder"));
  const std::vector<FileRoot> roots = {root_, {"/named/deep", At("in/deep"), false}};
  for (const char* path : {"/named/deep/file", "/named/folder/file", "/named/deep/../deep/file"}) {
    EXPECT_EQ(OpenBeneath(roots, path, O_RDWR).error, kRootNotWritable) << path;
    EXPECT_EQ(BytesOf(OpenBeneath(roots, path, O_RDONLY)), "inside") << path;
  }
  EXPECT_EQ(OpenBeneath(roots, "/named/folder/new", O_WRONLY | O_CREAT).error, kRootNotWritable);
  EXPECT_TRUE(OpenBeneath(roots, "/named/file", O_RDWR).fd.valid());
  root_.writable = false;
  EXPECT_EQ(Open("file", O_RDWR).error, kRootNotWritable);
  // Two names of one folder.
  const std::vector<FileRoot> twice = {{"/a", At("in"), true}, {"/b", At("in"), false}};
  EXPECT_EQ(OpenBeneath(twice, "/a/file", O_RDWR).error, kRootNotWritable);
  EXPECT_EQ(OpenBeneath({}, "/a/file", O_RDONLY).error, EXDEV);
}

TEST_F(NamedFileTest, FilesAreCreatedInside) {
  const OpenedFile made = Open("deep/new", O_RDWR | O_CREAT);
  ASSERT_TRUE(made.fd.valid());
  EXPECT_EQ(::write(made.fd.get(), "abc", 3), 3);
  EXPECT_EQ(BytesOf(Open("deep/new")), "abc");
  EXPECT_EQ(BytesOf(Open("deep/new", O_RDWR | O_CREAT)), "abc");
  EXPECT_EQ(BytesOf(Open("deep/new", O_RDWR | O_CREAT | O_TRUNC)), "");
  EXPECT_TRUE(Open("new", O_WRONLY | O_CREAT).fd.valid());
  EXPECT_TRUE(fs::exists(At("in/new")));
}

TEST_F(NamedFileTest, NobodyLeadsOutWhileItIsOpened) {
  // A folder and a link of the same name by turns.
  fs::create_directory(At("in/turn"));
  Make("in/turn/file", "inside");
  fs::create_symlink("../out", At("link"));
  std::atomic<bool> ended = false;
  std::thread other([&] {
    while (!ended) {
      // The name is always there.
      ::renameat2(AT_FDCWD, At("in/turn").c_str(), AT_FDCWD, At("link").c_str(), RENAME_EXCHANGE);
    }
  });
  int opened = 0;
  int outside = 0;
  for (int i = 0; i < 100'000; ++i) {
    const OpenedFile file = Open("turn/file", i % 3 == 0 ? O_RDWR | O_CREAT : O_RDONLY);
    if (!file.fd.valid()) continue;
    ++opened;
    if (BytesOf(file) != "inside") ++outside;
  }
  ended = true;
  other.join();
  EXPECT_GT(opened, 0);
  EXPECT_EQ(outside, 0);
  for (const fs::directory_entry& entry : fs::directory_iterator(At("out")))
    EXPECT_EQ(entry.path().filename(), "file");
}

}  // namespace
}  // namespace cuspan::proxy
