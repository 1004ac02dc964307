#include "launcher/program_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/fuzz_seed.h"

namespace cuspan {
namespace {

using testing::HasSubstr;

class ProgramCheck : public testing::Test {
 protected:
  ProgramCheck() {
    std::string pattern = testing::TempDir() + "program-check-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ProgramCheck() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), 0755);
    return path;
  }

  std::filesystem::path folder_;
};

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_F(ProgramCheck, DynamicProgramsPass) { EXPECT_TRUE(CheckEntered("/proc/self/exe").ok()); }

TEST_F(ProgramCheck, WhatIsNoProgramPasses) {
  EXPECT_TRUE(CheckEntered(Write("script", "#!/bin/sh\necho\n")).ok());
  EXPECT_TRUE(CheckEntered(Write("empty", "")).ok());
  EXPECT_TRUE(CheckEntered(folder_ / "nothing").ok());
  EXPECT_TRUE(CheckEntered(folder_).ok());
}

TEST_F(ProgramCheck, AWholeStaticProgramWithDeviceCodeIsNamed) {
  const Status status = CheckEntered(FULLY_STATIC);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr(FULLY_STATIC));
  EXPECT_THAT(status.message(), HasSubstr("without -static"));
}

TEST_F(ProgramCheck, DamagedFilesAreRead) {
  const std::string whole = Content(FULLY_STATIC);
  std::mt19937_64 random(FuzzSeed(3));
  for (int round = 0; round < 200; ++round) {
    std::string damaged = whole.substr(0, round % 4 == 0 ? random() % 5000 : whole.size());
    for (int i = 0; i < 3 && !damaged.empty(); ++i)
      damaged[random() % std::min<std::size_t>(damaged.size(), 64)] = static_cast<char>(random());
    static_cast<void>(CheckEntered(Write("damaged", damaged)));
  }
}

TEST_F(ProgramCheck, RightsOfItsOwnAreNamed) {
  const std::string path = Write("program", "x");
  EXPECT_EQ(WarnOfOwnRights(path), "");
  ::chmod(path.c_str(), 04755);
  EXPECT_EQ(WarnOfOwnRights(path), "") << "of the same user it has none";
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  ::chmod(path.c_str(), 04755);
  EXPECT_THAT(WarnOfOwnRights(path), HasSubstr("(setuid)"));
  ::chmod(path.c_str(), 02755);
  EXPECT_THAT(WarnOfOwnRights(path), HasSubstr("(setgid)"));
}

}  // namespace
}  // namespace cuspan
