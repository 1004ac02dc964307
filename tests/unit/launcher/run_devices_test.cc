#include "launcher/agent/run_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DeviceDescription Gpu(const std::string& host, std::uint32_t ordinal, std::uint8_t uuid) {
  DeviceDescription device;
  device.host = host;
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

std::vector<std::string> Names(const RunDevices& run) {
  std::vector<std::string> names;
  for (const DeviceDescription& device : run.devices)
    names.push_back(Format("{}:{}", device.host, device.ordinal));
  return names;
}

TEST(ChooseDevices, FollowsAgentsAndTheirLimits) {
  const auto run =
      ChooseDevices({{Agent({Gpu("a", 0, 1), Gpu("a", 1, 2)}, 1), Agent({Gpu("b", 0, 1)})}}, {});
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(Names(*run), ElementsAre("a:0", "b:0"));
}

TEST(ChooseDevices, AGpuThatTwoAgentsSeeCountsOnce) {
  const auto both = [] { return std::vector{Gpu("a", 0, 1), Gpu("a", 1, 2)}; };
  const auto run = ChooseDevices({{Agent(both(), 1), Agent(both(), 1), Agent(both(), 1)}}, {});
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(Names(*run), ElementsAre("a:0", "a:1"));
}

TEST(ChooseDevices, EachAgentHasSoftwareGpusOfItsOwn) {
  DeviceDescription soft = Gpu("a", 0, 1);
  soft.software = true;
  const auto run = ChooseDevices({{Agent({soft}), Agent({soft})}}, {});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->devices.size(), 2U);
}

TEST(ChooseDevices, TakesAsManyAsAreWanted) {
  const auto run = ChooseDevices({{Agent({Gpu("a", 0, 1), Gpu("a", 1, 2)})}}, 1);
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(Names(*run), ElementsAre("a:0"));
}

TEST(ChooseDevices, SaysWhatIsMissing) {
  const auto few = ChooseDevices({{Agent({Gpu("a", 0, 1)}), Agent({Gpu("b", 0, 1)})}}, 3);
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(few.status().message(), HasSubstr("3 GPUs are wanted and 2 found (on a, b)"));
  const auto none =
      ChooseDevices({{Agent({}, ~0U, "host a has no usable GPU: libcuda.so.1 not found")}}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(), "host a has no usable GPU: libcuda.so.1 not found");
  EXPECT_FALSE(ChooseDevices({}, {}).ok());
}

TEST(PlanWindows, AreDisjointAndStartAboveTheSanitizers) {
  const auto windows = PlanWindows({Gpu("a", 0, 1), Gpu("b", 0, 1), Gpu("b", 1, 2)});
  ASSERT_TRUE(windows.ok());
  const std::uint64_t bytes = std::uint64_t{256} << 30;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*windows)[i].base, 0x180000000000 + i * bytes);
    EXPECT_EQ((*windows)[i].bytes, bytes);
    EXPECT_EQ((*windows)[i].stride, 3 * bytes);
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
  const std::size_t most = (0x550000000000 - 0x180000000000) / (std::uint64_t{256} << 30);
  EXPECT_TRUE(PlanWindows(std::vector(most, Gpu("a", 0, 1))).ok());
  EXPECT_FALSE(PlanWindows(std::vector(most + 1, Gpu("a", 0, 1))).ok());
  DeviceDescription absurd = Gpu("a", 0, 1);
  absurd.memory_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(PlanWindows({absurd}).ok());
}

}  // namespace
}  // namespace cuspan
