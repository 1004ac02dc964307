#include "launcher/starter/agent_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using ::testing::ElementsAre;

TEST(SplitWords, KeepsQuotedBlanks) {
  EXPECT_THAT(SplitWords("  --mca a 'b c' --x=\"d e\" ''"),
              ElementsAre("--mca", "a", "b c", "--x=d e", ""));
  EXPECT_TRUE(SplitWords(" ").empty());
}

TEST(OutputLines, HaveNoBlanksAroundThem) {
  EXPECT_THAT(OutputLines("  a b \r\n\n c"), ElementsAre("a b", "c"));
  EXPECT_TRUE(OutputLines("\n \n").empty());
}

}  // namespace
}  // namespace cuspan
