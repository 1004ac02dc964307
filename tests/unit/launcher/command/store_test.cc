#include "launcher/command/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/command/options.h"

namespace cuspan {
namespace {

using testing::HasSubstr;
using testing::Not;

// Output of `cuspan store plan`, or its error.
std::string PlanWith(const std::vector<const char*>& options) {
  std::vector<const char*> words = {"cuspan", "store", "plan"};
  words.insert(words.end(), options.begin(), options.end());
  const Result<CommandLine> line = ParseCommandLine(static_cast<int>(words.size()), words.data());
  return line.ok() ? line->text : line.status().message();
}

TEST(StorePlan, Defaults) {
  EXPECT_EQ(
      PlanWith({}),
      "quantity              value       meaning\n"
      "requests under way    19          as many warps at least: each has one at a time\n"
      "single lines          434.2 MB/s  at this rate of reads\n"
      "reads like an extent  142 of 512  27.7%: above, whole extents are faster; below, single "
      "lines\n");
  EXPECT_EQ(
      PlanWith({"--rate", "106k", "--latency", "0.17ms", "--line", "4K", "--bandwidth", "1560M"}),
      PlanWith({}));
}

TEST(StorePlan, ReadsLikeAnExtentAreAtMostItsLines) {
  EXPECT_THAT(PlanWith({"--line", "64K"}),
              HasSubstr("32 of 32  single lines are never slower than whole extents\n"));
  EXPECT_THAT(PlanWith({"--rate", "1", "--bandwidth", "1G"}),
              HasSubstr("0 of 512  whole extents are always faster\n"));
}

TEST(StorePlan, ComparesTheTouchedLinesWithTheWholeFile) {
  EXPECT_THAT(PlanWith({}), Not(HasSubstr("file")));
  const std::string whole = PlanWith({"--file", "4G"});
  EXPECT_THAT(whole, HasSubstr("\nwhole file            2.8 s       by long reads\n"));
  EXPECT_THAT(whole, Not(HasSubstr("faster  ")));
  const auto faster = [](const char* file, const char* touched) {
    const std::string text = PlanWith({"--file", file, "--touched", touched});
    const std::size_t at = text.rfind("\nfaster ");
    return at == text.npos ? text : text.substr(at + 1);
  };
  EXPECT_EQ(faster("4G", "0.1"), "faster                single lines  2.8 times faster\n");
  EXPECT_EQ(faster("4G", "1"), "faster                whole file  3.6 times faster\n");
  EXPECT_EQ(faster("4G", "0.278"), "faster                neither     both take the same time\n");
  EXPECT_EQ(faster("4G", "0"), "faster                single lines  no line is touched\n");
  // A single line of 4,096 bytes: 9.4 us instead of 0.0006.
  EXPECT_THAT(PlanWith({"--file", "1", "--touched", "1"}),
              HasSubstr("\ntouched lines         9.4 us      by single reads\n"));
}

TEST(StorePlan, WrongValuesAreNamed) {
  for (const char* rate : {"0", "-1", "", "K", "x", "1e9", "nan", "inf", "0.0001K", "1.5.2", "5 K",
                           "1001T", "99999999999999999999999", "10KK"}) {
    EXPECT_EQ(PlanWith({"--rate", rate}),
              Format("--rate {}: write reads per second from 1 to 1000T, such as 106K", rate));
    EXPECT_EQ(
        PlanWith({"--bandwidth", rate}),
        Format("--bandwidth {}: write bytes per second from 1 to 1000T, such as 1.56G", rate));
  }
  for (const char* latency : {"0us", "-1us", "", "170", "us", "1m", "1001s", "0.5ns", "nans"})
    EXPECT_EQ(
        PlanWith({"--latency", latency}),
        Format("--latency {}: write a time from 1ns to 1000s, such as 170us or 2ms", latency));
  for (const char* line : {"0", "-4096", "", "256", "3000", "128K", "4.0K", "99999999999999999999"})
    EXPECT_EQ(PlanWith({"--line", line}),
              Format("--line {}: write a power of two from 512 to 65536", line));
  for (const char* file : {"0", "-1", "", "x", "99999999999999999999", "99999999999T"})
    EXPECT_EQ(PlanWith({"--file", file}), Format("--file {}: write a size such as 40G", file));
  for (const char* touched : {"-0.1", "1.1", "", "half", "50%", "nan"})
    EXPECT_EQ(
        PlanWith({"--file", "4G", "--touched", touched}),
        Format("--touched {}: write a part of the file's lines from 0 to 1, such as 0.1", touched));
  EXPECT_EQ(PlanWith({"--touched", "0.1"}),
            "--touched 0.1 needs --file: give the size of the file");
}

}  // namespace
}  // namespace cuspan
