#include "launcher/starter/agent_command.h"
#include "launcher/text/words.h"

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

const Plan kPlan{{{"localhost", 0}, {"a", 1}, {"n1", 1}, {"n1.b", 1}}};

TEST(NamedHost, IsAWholeWord) {
  EXPECT_EQ(NamedHost("ssh: Could not resolve hostname n1: Name or service not known", kPlan),
            "n1");
  EXPECT_EQ(NamedHost("me@n1.b: Permission denied (publickey).", kPlan), "n1.b");
  EXPECT_EQ(NamedHost("connect to host a port 22: Connection refused", kPlan), "a");
  EXPECT_EQ(NamedHost("there is no n1.", kPlan), "n1");
  EXPECT_EQ(NamedHost("there is no n12, n1.c or x-n1", kPlan), "");
}

TEST(ExplainUnreached, HasTheWordsOfEachHost) {
  EXPECT_EQ(ExplainUnreached({"me@n1: Permission denied (publickey).", "n1: more",
                              "ssh: connect to host a port 22: Connection refused"},
                             kPlan),
            "host a cannot be reached: ssh: connect to host a port 22: Connection refused; "
            "host n1 cannot be reached: me@n1: Permission denied (publickey).");
  EXPECT_EQ(ExplainUnreached({"Host key verification failed."}, kPlan),
            "a host cannot be reached: Host key verification failed.; run cuspan doctor with the "
            "same hosts to find it");
  EXPECT_EQ(ExplainUnreached({"Host key verification failed."}, Plan{{{"localhost", 0}, {"n2"}}}),
            "host n2 cannot be reached: Host key verification failed.");
}

TEST(CheckRemoteShell, NamesOneThatIsNotThere) {
  const Environment environment({"PATH=/usr/bin:/bin"});
  Plan plan{{{"localhost", 0}, {"n1", 1}}};
  ClusterOptions options;
  EXPECT_TRUE(CheckRemoteShell(plan, options, environment).ok());
  options.remote_shell = "no-such-shell -p 22";
  EXPECT_EQ(CheckRemoteShell(plan, options, environment).message(),
            "the remote shell for other hosts cannot be used: no-such-shell: command not found; "
            "install it, or name another one with --remote-shell");
  plan.relay = RelayKind::kUcx;
  options.remote_shell = "env ssh";
  EXPECT_TRUE(CheckRemoteShell(plan, options, environment).ok());
}

}  // namespace
}  // namespace cuspan
