#include "launcher/agent/node/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace cuspan {
namespace {

using ::testing::HasSubstr;

// Returns the environment of a node with `gpus` GPUs and `soft` software GPUs.
Environment Node(const char* gpus, const char* soft) {
  Environment environment;
  environment.Set("FAKE_GPUS", gpus);
  environment.Set("FAKE_SOFT", soft);
  return environment;
}

// True if a child was not waited for, ended or not.
bool HasChild() {
  siginfo_t ended{};
  return ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
}

TEST(InventoryQuery, FillsInWhoseTheDevicesAre) {
  InventoryQuery query(FAKE_PROXY, Node("2", "1"), "cuda", false);
  const Inventory found = query.Collect("n1", 3);
  ASSERT_EQ(found.devices.size(), 2U) << found.problem;
  EXPECT_EQ(found.devices[1].ordinal, 1U);
  EXPECT_EQ(found.devices[1].host, "n1");
  EXPECT_EQ(found.devices[1].agent, 3U);
  EXPECT_EQ(found.problem, "");
  EXPECT_FALSE(HasChild());
}

TEST(InventoryQuery, WhatWasBegunIsTaken) {
  InventoryQuery query(FAKE_PROXY, Node("2", "1"), "soft", false);
  query.Begin();
  query.Begin();
  const Inventory found = query.Collect("n1", 0);
  ASSERT_EQ(found.devices.size(), 1U) << found.problem;
  EXPECT_TRUE(found.devices.front().software);
  EXPECT_FALSE(HasChild());
}

TEST(InventoryQuery, CanBeRepeated) {
  InventoryQuery query(FAKE_PROXY, Node("1", "1"), "cuda", false);
  EXPECT_EQ(query.Collect("n1", 0).devices.size(), 1U);
  EXPECT_EQ(query.Collect("n1", 0).devices.size(), 1U);
}

TEST(InventoryQuery, WithoutGpuAutoTakesTheSoftwareGpu) {
  InventoryQuery query(FAKE_PROXY, Node("0", "1"), "auto", false);
  query.Begin();
  const Inventory found = query.Collect("n1", 0);
  ASSERT_EQ(found.devices.size(), 1U) << found.problem;
  EXPECT_TRUE(found.devices.front().software);
  EXPECT_THAT(found.problem, HasSubstr("using the software GPU on host n1: no usable GPU"));
}

TEST(InventoryQuery, WithoutAnyDeviceBothProblemsAreTold) {
  InventoryQuery query(FAKE_PROXY, Node("0", "0"), "auto", false);
  const Inventory found = query.Collect("n1", 0);
  EXPECT_TRUE(found.devices.empty());
  EXPECT_THAT(found.problem, HasSubstr("host n1: no usable GPU"));
  EXPECT_THAT(found.problem, HasSubstr("the software GPU's library not found"));
}

TEST(InventoryQuery, AProxyThatDiesIsNamed) {
  InventoryQuery query("/bin/false", Environment(), "cuda", false);
  query.Begin();
  EXPECT_THAT(query.Collect("n1", 0).problem,
              HasSubstr("host n1: listing the devices of driver 'cuda': its proxy exited with"));
  EXPECT_FALSE(HasChild());
}

TEST(InventoryQuery, WithoutAProxySaysWhatToDo) {
  InventoryQuery query("/nowhere/cuspan-proxy", Environment(), "cuda", false);
  query.Begin();
  EXPECT_THAT(query.Collect("n1", 0).problem,
              HasSubstr("/nowhere/cuspan-proxy: No such file or directory: build or install"));
}

TEST(InventoryQuery, WhatNobodyTakesLeavesNoProxy) {
  {
    InventoryQuery query(FAKE_PROXY, Node("1", "1"), "cuda", false);
    query.Begin();
    EXPECT_TRUE(HasChild());
    query.Drop();
    EXPECT_FALSE(HasChild());
    query.Begin();
    EXPECT_TRUE(HasChild());
  }
  EXPECT_FALSE(HasChild());
}

}  // namespace
}  // namespace cuspan
