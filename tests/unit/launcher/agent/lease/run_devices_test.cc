#include "launcher/agent/lease/run_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DeviceDescription Gpu(const std::string& host, std::uint32_t ordinal, std::uint8_t uuid,
                      std::uint32_t agent = 0) {
  DeviceDescription device;
  device.host = host;
  device.agent = agent;
  device.ordinal = ordinal;
  device.name = "GPU";
  device.uuid[0] = uuid;
  device.memory_bytes = std::uint64_t{16} << 30;
  return device;
}

AgentInventory Agent(std::vector<DeviceDescription> devices, std::uint32_t limit = ~0U,
                     std::string problem = "") {
  AgentInventory inventory;
  inventory.devices = std::move(devices);
  inventory.limit = limit;
  inventory.problem = std::move(problem);
  return inventory;
}

// Returns the devices of a run without any other runs.
Result<std::vector<std::string>> Choose(const std::vector<AgentInventory>& agents,
                                        const GpuRequest& request = {},
                                        LeaseMode mode = LeaseMode::kAuto) {
  const RunPool pool = MakeRunPool(agents, mode);
  const AllocationRequest allocation = MakeRequest(pool, request, "home");
  const Decision decision = Decide(pool.pool, PoolLeases(pool.pool), allocation);
  if (decision.verdict != Decision::Verdict::kChosen) return ExplainNever(pool, allocation);
  std::vector<std::string> names;
  for (const DeviceDescription& device : AssignAgents(pool, decision.gpus))
    names.push_back(Format("{}:{} by {}", device.host, device.ordinal, device.agent));
  return names;
}

GpuRequest Want(std::uint32_t number) {
  GpuRequest request;
  request.number = number;
  return request;
}

TEST(RunPool, FollowsAgentsAndTheirLimits) {
  const auto run =
      Choose({Agent({Gpu("a", 0, 1, 1), Gpu("a", 1, 2, 1)}, 1), Agent({Gpu("b", 0, 1, 2)})});
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(*run, ElementsAre("a:0 by 1", "b:0 by 2"));
}

TEST(RunPool, AGpuThatTwoAgentsSeeCountsOnce) {
  const auto both = [](std::uint32_t agent) {
    return std::vector{Gpu("a", 0, 1, agent), Gpu("a", 1, 2, agent)};
  };
  for (const LeaseMode mode : {LeaseMode::kAuto, LeaseMode::kOff}) {
    const auto run = Choose({Agent(both(1), 1), Agent(both(2), 1), Agent(both(3), 1)}, {}, mode);
    ASSERT_TRUE(run.ok());
    EXPECT_THAT(*run, ElementsAre("a:0 by 1", "a:1 by 2"));
  }
}

TEST(RunPool, EachAgentHasSoftwareGpusOfItsOwnUnlessTheyAreLeased) {
  DeviceDescription soft = Gpu("a", 0, 1, 1);
  soft.software = true;
  DeviceDescription other = soft;
  other.agent = 2;
  EXPECT_THAT(*Choose({Agent({soft}), Agent({other})}), ElementsAre("a:0 by 1", "a:0 by 2"));
  EXPECT_THAT(*Choose({Agent({soft}), Agent({other})}, {}, LeaseMode::kOn),
              ElementsAre("a:0 by 1"));
  EXPECT_THAT(MakeRunPool({Agent({soft})}, LeaseMode::kAuto).keys, ElementsAre(""));
  EXPECT_THAT(MakeRunPool({Agent({soft})}, LeaseMode::kOn).keys, ElementsAre("soft0"));
  EXPECT_THAT(MakeRunPool({Agent({Gpu("a", 0, 1)})}, LeaseMode::kAuto).keys,
              ElementsAre("01000000000000000000000000000000"));
  EXPECT_THAT(MakeRunPool({Agent({Gpu("a", 0, 1)})}, LeaseMode::kOff).keys, ElementsAre(""));
}

TEST(RunPool, ARunThatSharesHasLeasesOfSoftwareGpus) {
  ShareTerms sharing;
  sharing.shared = true;
  EXPECT_EQ(LeaseModeOf(LeaseMode::kAuto, sharing), LeaseMode::kOn);
  EXPECT_EQ(LeaseModeOf(LeaseMode::kAuto, {}), LeaseMode::kAuto);
  EXPECT_EQ(LeaseModeOf(LeaseMode::kOff, {}), LeaseMode::kOff);
}

TEST(RunPool, WhatLimitsARunIsToldTheAllocator) {
  const RunPool pool = MakeRunPool({Agent({Gpu("a", 0, 1)})}, LeaseMode::kAuto);
  GpuRequest request = Want(1);
  EXPECT_EQ(MakeRequest(pool, request, "a").kind, scheduling::Bottleneck::kUnknown);
  request.share.bottleneck = static_cast<std::uint8_t>(scheduling::Bottleneck::kMemory);
  EXPECT_EQ(MakeRequest(pool, request, "a").kind, scheduling::Bottleneck::kMemory);
  request.share.bottleneck = 200;
  EXPECT_EQ(MakeRequest(pool, request, "a").kind, scheduling::Bottleneck::kUnknown);
}

TEST(RunPool, TakesAsManyAsAreWantedAtHomeFirst) {
  EXPECT_THAT(*Choose({Agent({Gpu("a", 0, 1, 1), Gpu("a", 1, 2, 1)})}, Want(1)),
              ElementsAre("a:0 by 1"));
  EXPECT_THAT(*Choose({Agent({Gpu("a", 0, 1, 1)}), Agent({Gpu("home", 0, 1, 0)})}, Want(1)),
              ElementsAre("home:0 by 0"));
}

TEST(RunPool, KnowsWhatGpusAre) {
  DeviceDescription gpu = Gpu("a", 0, 1);
  gpu.attributes.assign(100, 0);
  gpu.attributes[13] = 1980000;
  gpu.attributes[16] = 132;
  gpu.attributes[36] = 2619000;
  gpu.attributes[75] = 9;
  DeviceDescription prohibited = Gpu("a", 1, 2);
  prohibited.attributes = gpu.attributes;
  prohibited.attributes[20] = 2;  // CU_COMPUTEMODE_PROHIBITED
  const RunPool pool = MakeRunPool({Agent({gpu, prohibited})}, LeaseMode::kAuto);
  EXPECT_EQ(pool.pool.gpus[0].capability, 90U);
  EXPECT_EQ(pool.pool.gpus[0].speed, 132.0 * 128 * 1980000 * 2619000);
  EXPECT_TRUE(pool.pool.gpus[0].usable);
  EXPECT_FALSE(pool.pool.gpus[1].usable);
  const auto both = Choose({Agent({gpu, prohibited})}, Want(2));
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.status().message(), HasSubstr("prohibited"));
}

TEST(RunPool, SaysWhatIsMissing) {
  const auto few = Choose({Agent({Gpu("a", 0, 1)}), Agent({Gpu("b", 0, 1)})}, Want(3));
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(few.status().message(), HasSubstr("3 GPUs requested, 2 found (on a, b)"));
  GpuRequest large = Want(1);
  large.least_memory_bytes = std::uint64_t{80} << 30;
  large.least_capability = 90;
  EXPECT_THAT(Choose({Agent({Gpu("a", 0, 1)})}, large).status().message(),
              HasSubstr("only 0 have at least 80.0 GiB of memory and compute capability 9.0"));
  const auto none = Choose({Agent({}, ~0U, "host a has no usable GPU: libcuda.so.1 not found")});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(), "host a has no usable GPU: libcuda.so.1 not found");
  EXPECT_FALSE(Choose({}).ok());
}

TEST(PlanWindows, AreDisjointAndStartAboveTheSanitizers) {
  const auto windows = PlanWindows({Gpu("a", 0, 1), Gpu("b", 0, 1), Gpu("b", 1, 2)});
  ASSERT_TRUE(windows.ok());
  const std::uint64_t bytes = std::uint64_t{256} << 30;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*windows)[i].base, 0x180000000000 + i * bytes);
    EXPECT_EQ((*windows)[i].bytes, bytes);
    EXPECT_EQ((*windows)[i].stride, (3 + 8) * bytes);
  }
}

TEST(PlanWindows, GrowWithTheLargestMemory) {
  DeviceDescription large = Gpu("a", 0, 1);
  large.memory_bytes = (std::uint64_t{64} << 30) + 1;
  const auto windows = PlanWindows({Gpu("b", 0, 1), large});
  ASSERT_TRUE(windows.ok());
  EXPECT_EQ((*windows)[0].bytes, std::uint64_t{512} << 30);
  EXPECT_EQ((*windows)[1].base, 0x180000000000 + (std::uint64_t{512} << 30));
}

TEST(PlanWindows, StayBelowTheEnd) {
  const std::size_t most = (0x450000000000 - 0x180000000000) / (std::uint64_t{256} << 30);
  EXPECT_TRUE(PlanWindows(std::vector(most, Gpu("a", 0, 1))).ok());
  EXPECT_FALSE(PlanWindows(std::vector(most + 1, Gpu("a", 0, 1))).ok());
  DeviceDescription absurd = Gpu("a", 0, 1);
  absurd.memory_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(PlanWindows({absurd}).ok());
}

}  // namespace
}  // namespace cuspan
