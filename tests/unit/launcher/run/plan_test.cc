#include "launcher/run/plan.h"

#include "launcher/starter/agent_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseHosts, TakesHostsWithAndWithoutCounts) {
  const auto hosts = ParseHosts("a,b:2, 10.0.0.7:1");
  ASSERT_TRUE(hosts.ok());
  EXPECT_THAT(*hosts, ElementsAre(HostRequest{"a", kAllDevices}, HostRequest{"b", 2},
                                  HostRequest{"10.0.0.7", 1}));
}

TEST(ParseHosts, RefusesWhatIsNoHost) {
  for (const char* bad :
       {"", ",", "a,,b", "a:", "a:0", "a:x", "a:-1", "a:99999999999", "-x", "a b", "a;b", ":2"}) {
    const auto hosts = ParseHosts(bad);
    ASSERT_FALSE(hosts.ok()) << bad;
    EXPECT_EQ(hosts.status().code(), StatusCode::kInvalid);
  }
}

TEST(ParseAgents, ReadsWhatIsWritten) {
  const std::vector<AgentPlan> agents = {{"a", 2}, {"user@b.c", kAllDevices}, {"10.0.0.1", 0}};
  EXPECT_EQ(AgentsText(agents), "a=2,user@b.c=all,10.0.0.1=0");
  const auto read = ParseAgents(AgentsText(agents));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, agents);
}

TEST(ParseAgents, RefusesWhatIsNone) {
  for (const char* bad : {"a", "a=", "=1", "a=x", "a=1,,b=2", "a=-1", "a=4294967295"})
    EXPECT_EQ(ParseAgents(bad).status().code(), StatusCode::kInvalid) << bad;
}

TEST(ParseRelayKind, KnowsTheirNames) {
  for (const RelayKind kind : {RelayKind::kMpi, RelayKind::kUcx}) {
    const auto read = ParseRelayKind(NameOf(kind));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, kind);
  }
  EXPECT_FALSE(ParseRelayKind("tcp").ok());
  EXPECT_FALSE(ParseRelayKind("auto").ok());
}

TEST(ParseRelay, KnowsThemAndAuto) {
  const std::pair<const char*, std::optional<RelayKind>> kinds[] = {
      {"auto", std::nullopt}, {"mpi", RelayKind::kMpi}, {"ucx", RelayKind::kUcx}};
  for (const auto& [text, kind] : kinds) {
    const auto read = ParseRelay(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(*read, kind) << text;
  }
  EXPECT_THAT(ParseRelay("tcp").status().message(), testing::HasSubstr("mpi, ucx or auto"));
}

TEST(ParseHostfile, TakesAllForms) {
  const auto hosts = ParseHostfile(
      "# the cluster\n"
      "a\n"
      "\n"
      "b 2   # two of four\n"
      "c:3\r\n"
      "  d slots=4 max_slots=8\n"
      "e",
      "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status().message();
  EXPECT_THAT(*hosts,
              ElementsAre(HostRequest{"a", kAllDevices}, HostRequest{"b", 2}, HostRequest{"c", 3},
                          HostRequest{"d", 4}, HostRequest{"e", kAllDevices}));
}

TEST(ParseHostfile, NamesFileAndLine) {
  for (const char* bad :
       {"a slots=x", "a 1 2", "a b", "a:2 slots=3", "a gpus=2", "@x", "a slots="}) {
    const auto hosts = ParseHostfile(std::string("ok\n") + bad + "\nok", "my.hosts");
    ASSERT_FALSE(hosts.ok()) << bad;
    EXPECT_THAT(hosts.status().message(), HasSubstr("my.hosts:2:"));
  }
  const auto none = ParseHostfile("# nothing\n\n", "my.hosts");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("my.hosts names no host"));
}

TEST(MakePlan, WithoutHostsThisNodeServesAll) {
  const Plan plan = MakePlan({}, SameNode::kAuto, "n1");
  EXPECT_FALSE(plan.mpi());
  EXPECT_THAT(plan.agents, ElementsAre(AgentPlan{"localhost", kAllDevices}));
}

TEST(MakePlan, WithoutHostsAndSharingAnotherAgentServes) {
  const Plan plan = MakePlan({}, SameNode::kNever, "n1");
  EXPECT_TRUE(plan.mpi());
  EXPECT_THAT(plan.agents,
              ElementsAre(AgentPlan{"localhost", 0}, AgentPlan{"localhost", kAllDevices}));
}

TEST(MakePlan, TheHomeAgentServesItsNodeInItsPlace) {
  const Plan plan = MakePlan({{"b", 2}, {"n1", 1}, {"c", kAllDevices}}, SameNode::kAuto, "n1");
  EXPECT_THAT(plan.agents, ElementsAre(AgentPlan{"localhost", 1}, AgentPlan{"b", 2},
                                       AgentPlan{"c", kAllDevices}));
  EXPECT_EQ(plan.head_position, 1U);
}

TEST(MakePlan, AHostNamedTwiceHasOneAgent) {
  const Plan plan =
      MakePlan({{"b", 1}, {"localhost", 1}, {"b", 2}, {"n1", 3}}, SameNode::kAuto, "n1");
  EXPECT_THAT(plan.agents, ElementsAre(AgentPlan{"localhost", 4}, AgentPlan{"b", 3}));
}

TEST(MakePlan, OnlyOtherHostsLeaveTheHomeAgentWithoutDevices) {
  const Plan plan = MakePlan({{"b", kAllDevices}}, SameNode::kAuto, "n1");
  EXPECT_THAT(plan.agents, ElementsAre(AgentPlan{"localhost", 0}, AgentPlan{"b", kAllDevices}));
}

TEST(MakePlan, NeverSharingGivesEachMentionAnAgent) {
  const Plan plan = MakePlan({{"localhost", 1}, {"localhost", 1}}, SameNode::kNever, "n1");
  EXPECT_THAT(plan.agents, ElementsAre(AgentPlan{"localhost", 0}, AgentPlan{"localhost", 1},
                                       AgentPlan{"localhost", 1}));
}

TEST(ParseLanes, ANumberOrAuto) {
  EXPECT_EQ(*ParseLanes("1"), 1U);
  EXPECT_EQ(*ParseLanes("16"), 16U);
  EXPECT_EQ(*ParseLanes("auto"), std::nullopt);
  for (const char* wrong : {"", "0", "17", "-1", "two", "2x"})
    EXPECT_THAT(ParseLanes(wrong).status().message(), testing::HasSubstr("auto")) << wrong;
}

TEST(AutoLanes, AsManyAsTheNodeHasRoomFor) {
  for (const RelayKind relay : kRelayKinds) {
    std::uint32_t last = 1;
    for (const int cores : {1, 2, 4, 6, 8, 16, 64, 256}) {
      const std::uint32_t lanes = AutoLanes(relay, cores);
      EXPECT_GE(lanes, last) << cores;
      // The program, its agent and lanes have a core each; more lanes than 4 were never faster.
      EXPECT_LE(lanes == 1 ? 1 : 2 + static_cast<int>(lanes), cores);
      EXPECT_LE(lanes, 4U);
      last = lanes;
    }
    EXPECT_GE(last, 2U) << "calls beside copies";
  }
}

TEST(ParseLanes, EachLaneHasRoom) {
  for (std::uint32_t lanes = 1; lanes <= kMaxLanes; ++lanes) {
    EXPECT_GE(StagingBuffersFor(lanes), std::max(16U, 4 * lanes));
    EXPECT_LE(StagingBuffersFor(lanes), 64U);
    EXPECT_LE(SendsInFlightFor(lanes) * lanes, StagingBuffersFor(lanes));
  }
}

TEST(MakePlan, HostsOfTheAppAloneServeNoDevice) {
  const Plan plan = MakePlan({{"g1", 2}}, SameNode::kAuto, "here",
                             {{"c1", 2}, {"g1", 1}, {"here", 1}, {"c1", 1}});
  ASSERT_EQ(plan.agents.size(), 3U);
  EXPECT_EQ(plan.agents[1], (AgentPlan{"g1", 2}));
  EXPECT_EQ(plan.agents[2], (AgentPlan{"c1", 0}));
  EXPECT_EQ(AgentPlanOptions(plan, 2), (std::vector<std::string>{"--serve", "0"}));
}

}  // namespace
}  // namespace cuspan
