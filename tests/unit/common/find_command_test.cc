#include "common/find_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/settings.h"

namespace cuspan {
namespace {

using testing::HasSubstr;

class FindCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "commands-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    if (const char* const path = std::getenv("PATH")) before = path;
  }
  void TearDown() override {
    ::setenv("PATH", before.c_str(), 1);
    ::unsetenv(settings::kMpsControl.name);
    std::filesystem::remove_all(folder);
  }
  std::string Make(const std::string& name, bool executable = true) const {
    const std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    if (executable) std::filesystem::permissions(path, std::filesystem::perms{0755});
    return path.string();
  }

  std::filesystem::path folder;
  std::string before;
};

TEST_F(FindCommandTest, TheFirstThatCanBeRunIsTaken) {
  Make("a/tool", false);
  const std::string second = Make("b/tool");
  Make("c/tool");
  const std::string path = Format("{0}/none:{0}/a:{0}/b:{0}/c", folder.string());
  EXPECT_EQ(*FindCommand("tool", path), second);
  EXPECT_EQ(*FindCommand(second, ""), second);
}

TEST_F(FindCommandTest, WhyThereIsNone) {
  EXPECT_EQ(FindCommand("", folder.string()).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(FindCommand("tool", folder.string()).status().message(), HasSubstr("not found"));
  Make("tool", false);
  EXPECT_EQ(FindCommand("tool", folder.string()).status().code(), StatusCode::kRefused);
  EXPECT_EQ(FindCommand(folder.string(), "").status().code(), StatusCode::kRefused);
}

// Example: root's folders in PATH after root became another user.
TEST_F(FindCommandTest, AFolderThatMayNotBeSearchedIsNoReason) {
  Make("closed/tool");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms{});
  EXPECT_EXIT(
      {
        constexpr uid_t kNobody = 65534;
        if (::geteuid() == 0 && ::setuid(kNobody) != 0) std::abort();
        const Status status = FindCommand("tool", (folder / "closed").string()).status();
        std::fputs(status.message().c_str(), stderr);
        std::_Exit(status.code() == StatusCode::kNotFound ? 0 : 1);
      },
      testing::ExitedWithCode(0), "tool: command not found");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms{0755});
}

TEST_F(FindCommandTest, TheControlOfMpsIsThatOfTheSettingOrOfThePath) {
  const std::string own = Make("own"), usual = Make(settings::kMpsControl.default_value);
  ::setenv("PATH", folder.c_str(), 1);
  EXPECT_EQ(*FindMpsControl(), usual);
  ::setenv(settings::kMpsControl.name, own.c_str(), 1);
  EXPECT_EQ(*FindMpsControl(), own);
  // Also in /usr/bin, not only in PATH.
  ::setenv(settings::kMpsControl.name, "env", 1);
  EXPECT_EQ(*FindMpsControl(), "/usr/bin/env");
  ::setenv(settings::kMpsControl.name, "no-such-program", 1);
  ::setenv("PATH", "", 1);
  EXPECT_FALSE(FindMpsControl().ok());
}

}  // namespace
}  // namespace cuspan
