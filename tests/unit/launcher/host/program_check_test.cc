#include "launcher/host/program_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

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

TEST_F(ProgramCheck, ProgramsThatCallTheKernelThemselves) {
  EXPECT_TRUE(CallsKernelItself(FULLY_STATIC));
  EXPECT_FALSE(CallsKernelItself("/proc/self/exe"));
  EXPECT_FALSE(CallsKernelItself(Write("script", "#!/bin/sh\necho\n")));
  EXPECT_FALSE(CallsKernelItself(folder_ / "nothing"));
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

// Returns the header of a program for AArch64.
std::string OfAnotherMachine() {
  std::string header(
      "\x7f"
      "ELF\x02\x01\x01",
      7);
  header.resize(18, '\0');
  header += std::string("\xb7\x00", 2);
  return header + std::string(200, '\0');
}

TEST_F(ProgramCheck, BinariesAreNotForAShell) {
  EXPECT_TRUE(IsBinary("/proc/self/exe"));
  EXPECT_TRUE(IsBinary(Write("other", OfAnotherMachine())));
  EXPECT_TRUE(IsBinary(Write("data", std::string("MZ\0\0\n", 5))));
  EXPECT_FALSE(IsBinary(Write("lines", "echo\n")));
  EXPECT_FALSE(IsBinary(Write("empty", "")));
}

TEST_F(ProgramCheck, AStartThatFailsIsExplained) {
  const auto explain = [](const std::string& path, int error) {
    const Status why = ExplainStart("x", path, error);
    return std::pair(why.code(), why.message());
  };
  using Code = StatusCode;
  EXPECT_EQ(explain(Write("other", OfAnotherMachine()), ENOEXEC),
            std::pair(Code::kRefused, std::string("x: cannot execute binary file: it is a program "
                                                  "for AArch64")));
  EXPECT_EQ(explain(Write("data", std::string("\0\1", 2)), ENOEXEC),
            std::pair(Code::kRefused, std::string("x: cannot execute binary file")));
  EXPECT_THAT(explain(Write("script", "#! /no/such/shell -e\n"), ENOENT).second,
              HasSubstr("x: its interpreter /no/such/shell does not exist"));
  EXPECT_THAT(explain(Write("script", "#!/bin/sh\r\n"), ENOENT).second,
              HasSubstr("carriage return"));
  EXPECT_EQ(explain("/proc/self/exe", ENOENT).first, Code::kRefused);
  EXPECT_EQ(explain("", ENOENT),
            std::pair(Code::kNotFound, std::string("x: No such file or directory")));
  EXPECT_EQ(explain("/proc/self/exe", EACCES),
            std::pair(Code::kRefused, std::string("x: Permission denied")));
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
