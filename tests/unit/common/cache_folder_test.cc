#include "common/cache_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace cuspan {
namespace {

namespace fs = std::filesystem;

constexpr Setting kSetting{"CUSPAN_TEST_CACHE", "~/.cache/cuspan/things", "a cache"};

class CacheFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "cuspan-folder-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    base_ = path;
    Set("HOME", "/home/me");
    Set("XDG_CACHE_HOME", "");
  }
  void TearDown() override {
    fs::remove_all(base_);
    ::unsetenv(kSetting.name);
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  void Set(const std::string& name, const char* value) {
    const char* const before = std::getenv(name.c_str());
    before_.try_emplace(name,
                        before == nullptr ? std::nullopt : std::optional<std::string>(before));
    ::setenv(name.c_str(), value, 1);
  }

  fs::path base_;
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(CacheFolderTest, IsBelowTheUsersCache) {
  EXPECT_EQ(CacheFolder(kSetting), "/home/me/.cache/cuspan/things");
  Set("XDG_CACHE_HOME", "/var/me");
  EXPECT_EQ(CacheFolder(kSetting), "/var/me/cuspan/things");
  // "All paths … must be absolute. If … relative …, the path [is] invalid." (XDG Base Directory)
  Set("XDG_CACHE_HOME", "me");
  EXPECT_EQ(CacheFolder(kSetting), "/home/me/.cache/cuspan/things");
  Set("HOME", "");
  EXPECT_EQ(CacheFolder(kSetting), "");
}

TEST_F(CacheFolderTest, MayBeSetOrOff) {
  ::setenv(kSetting.name, "/some/where", 1);
  EXPECT_EQ(CacheFolder(kSetting), "/some/where");
  ::setenv(kSetting.name, "off", 1);
  EXPECT_EQ(CacheFolder(kSetting), "");
}

TEST_F(CacheFolderTest, IsMadeForThisUserAlone) {
  const fs::path folder = base_ / "a" / "b";
  ASSERT_TRUE(OpenCacheFolder(folder.string(), kSetting).ok());
  EXPECT_TRUE(OpenCacheFolder(folder.string(), kSetting).ok()) << "it is there";
  for (const fs::path& made : {folder, base_ / "a"})
    EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_all) << made;
}

TEST_F(CacheFolderTest, WhatCannotServeIsRefused) {
  const Status relative = OpenCacheFolder("some/where", kSetting).status();
  EXPECT_EQ(relative.code(), StatusCode::kInvalid);
  EXPECT_THAT(relative.message(), testing::HasSubstr(kSetting.name));
  std::ofstream(base_ / "file") << "x";
  EXPECT_EQ(OpenCacheFolder((base_ / "file").string(), kSetting).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(OpenCacheFolder((base_ / "file/below").string(), kSetting).status().code(),
            StatusCode::kUnavailable);
  fs::create_directory(base_ / "open");
  fs::permissions(base_ / "open", fs::perms::all);
  EXPECT_EQ(OpenCacheFolder((base_ / "open").string(), kSetting).status().code(),
            StatusCode::kRefused);
}

}  // namespace
}  // namespace cuspan
