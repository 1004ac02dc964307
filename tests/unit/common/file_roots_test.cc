#include "common/file_roots.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(FileRootsTest, AreParsed) {
  EXPECT_TRUE(ParseFileRoots("")->empty());
  const std::vector<FileRoot> roots = *ParseFileRoots("/data,/a/b/=/nvme/b//:rw,/c:x:rw,/d=/e=f");
  ASSERT_EQ(roots.size(), 4U);
  const auto expect = [](const FileRoot& root, const char* named, const char* there,
                         bool writable) {
    EXPECT_EQ(root.named, named);
    EXPECT_EQ(root.there, there);
    EXPECT_EQ(root.writable, writable);
  };
  expect(roots[0], "/data", "/data", false);
  expect(roots[1], "/a/b", "/nvme/b", true);
  expect(roots[2], "/c:x", "/c:x", true);
  expect(roots[3], "/d", "/e=f", false);
  EXPECT_EQ(roots[1].PathThere("/a/b/x/y"), "/nvme/b/x/y");
}

TEST(FileRootsTest, WrongPartsAreNamed) {
  for (const char* text : {"data", "/", "//", "=", "/data=", "=/data", "/data=there", ":rw", "/:rw",
                           "/data,", "/data,,", ",/data"}) {
    const bool trailing = std::string_view(text) == "/data,";
    EXPECT_EQ(ParseFileRoots(text).ok(), trailing) << text;
  }
  EXPECT_EQ(ParseFileRoots("/data,more").status().message(),
            "--file-root more: use DIR, DIR=THERE or DIR:rw, with absolute paths of directories "
            "below /");
  EXPECT_EQ(ParseFileRoots("/data,/data/:rw").status().message(),
            "--file-root /data/:rw: /data is named twice");
}

TEST(FileRootsTest, PathsAreMadePlain) {
  EXPECT_EQ(PlainPath("/data//more/./x"), "/data/more/x");
  EXPECT_EQ(PlainPath("//data/x/"), "/data/x");
  EXPECT_EQ(PlainPath("/data/../x"), "/data/../x");
  EXPECT_EQ(PlainPath("/./data/.x/..y/."), "/data/.x/..y");
  EXPECT_EQ(PlainPath("/"), "");
}

TEST(FileRootsTest, TheLongestOneIsFound) {
  const std::vector<FileRoot> roots = *ParseFileRoots("/data/more,/data,/data/more/files");
  const auto found = [&](std::string_view path) -> std::string {
    const FileRoot* const root = FindFileRoot(roots, path);
    return root == nullptr ? "" : root->named;
  };
  EXPECT_EQ(found("/data/x"), "/data");
  EXPECT_EQ(found("/data/more"), "/data");
  EXPECT_EQ(found("/data/more/x"), "/data/more");
  EXPECT_EQ(found("/data/more/files/x"), "/data/more/files");
  EXPECT_EQ(found("/data/morefiles"), "/data");
  for (const char* none : {"", "/", "/data", "/dat", "/database/x", "data/x", "/more/x"})
    EXPECT_EQ(found(none), "") << none;
}

}  // namespace
}  // namespace cuspan
