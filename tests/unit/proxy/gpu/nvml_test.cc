#include "proxy/gpu/nvml.h"

#include <gtest/gtest.h>

namespace cuspan::proxy {
namespace {

TEST(Nvml, TellsFreeMemoryAndPartsOfGpus) {
  std::vector<DeviceDescription> devices(3);
  for (std::size_t i = 0; i < devices.size(); ++i)
    devices[i].uuid[0] = static_cast<std::uint8_t>(i + 1);
  const std::unique_ptr<Nvml> nvml = Nvml::Load();
  ASSERT_NE(nvml, nullptr);
  AskNvml(*nvml, devices);
  EXPECT_EQ(devices[0].free_bytes, 5U);
  EXPECT_FALSE(devices[0].mig);
  EXPECT_EQ(devices[1].free_bytes, 3U);
  EXPECT_TRUE(devices[1].mig);
  EXPECT_EQ(devices[2].free_bytes, kUnknownBytes);
  EXPECT_FALSE(devices[2].mig);
  EXPECT_EQ(devices[0].driver_release, "580.1.2");
}

std::array<std::uint8_t, 16> Uuid(std::uint8_t first) { return {first}; }

NvmlAnswer Ask(const char* function, std::vector<std::uint32_t> arguments, std::uint8_t gpu = 1) {
  NvmlDevice device(Uuid(gpu));
  NvmlAsk ask;
  ask.function = function;
  ask.arguments = std::move(arguments);
  return device.Ask(ask);
}

TEST(NvmlDevice, QuestionsOfAllForms) {
  using Values = std::vector<std::uint64_t>;
  EXPECT_EQ(Ask("nvmlDeviceGetTemperature", {0}).values, Values{41});
  EXPECT_EQ(Ask("nvmlDeviceGetUtilizationRates", {}).values, (Values{93, 17}));
  EXPECT_EQ(Ask("nvmlDeviceGetTotalEccErrors", {1, 2}).values, Values{(1ULL << 40) + 12});
  EXPECT_EQ(Ask("nvmlDeviceGetEncoderUtilization", {}).values, (Values{8, 167000}));
  EXPECT_EQ(Ask("nvmlDeviceGetMemoryInfo", {}).values, (Values{9, 5, 4}));
  EXPECT_EQ(Ask("nvmlDeviceGetMemoryInfo_v2", {}).values, (Values{9, 1, 5, 3}));
  EXPECT_EQ(Ask("nvmlDeviceGetFieldValues", {83, 0}).values, (Values{3, 1234567890123}));
  EXPECT_EQ(Ask("nvmlDeviceGetP2PStatus", {2, 2, 0, 0, 0}).values, Values{2});
}

TEST(NvmlDevice, WhatCanNotBeAnswered) {
  // Errors of the library itself, without values.
  EXPECT_EQ(Ask("nvmlDeviceGetTemperature", {9}).result, nvml::kInvalidArgument);
  EXPECT_TRUE(Ask("nvmlDeviceGetTemperature", {9}).values.empty());
  EXPECT_EQ(Ask("nvmlDeviceGetTemperature", {0}, 2).result, nvml::kNotSupported);
  EXPECT_EQ(Ask("nvmlDeviceGetFieldValues", {82, 0}).result, nvml::kNotSupported);
  // Not a supported question, even if the library has the function.
  EXPECT_EQ(Ask("nvmlShutdown", {}).result, nvml::kFunctionNotFound);
  EXPECT_EQ(Ask("", {}).result, nvml::kFunctionNotFound);
  // A question unknown to this library.
  EXPECT_EQ(Ask("nvmlDeviceGetPowerUsage", {}).result, nvml::kFunctionNotFound);
  // A device unknown to it, like a software GPU.
  EXPECT_EQ(Ask("nvmlDeviceGetTemperature", {0}, 77).result, nvml::kNotSupported);
  EXPECT_EQ(Ask("nvmlDeviceGetP2PStatus", {2, 77, 0, 0, 0}).result, nvml::kNotFound);
  // Wrong number of arguments.
  EXPECT_EQ(Ask("nvmlDeviceGetTemperature", {}).result, nvml::kInvalidArgument);
  EXPECT_EQ(Ask("nvmlDeviceGetTemperature", {0, 0}).result, nvml::kInvalidArgument);
  EXPECT_EQ(Ask("nvmlDeviceGetFieldValues", {83}).result, nvml::kInvalidArgument);
  EXPECT_EQ(Ask("nvmlDeviceGetP2PStatus", {2}).result, nvml::kInvalidArgument);
}

}  // namespace
}  // namespace cuspan::proxy
