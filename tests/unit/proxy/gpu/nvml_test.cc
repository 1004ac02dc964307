#include "proxy/gpu/nvml.h"

#include <gtest/gtest.h>

namespace cuspan::proxy {
namespace {

TEST(Nvml, TellsFreeMemoryAndPartsOfGpus) {
  std::vector<DeviceDescription> devices(3);
  for (std::size_t i = 0; i < devices.size(); ++i)
    devices[i].uuid[0] = static_cast<std::uint8_t>(i + 1);
  AskNvml(devices);
  EXPECT_EQ(devices[0].free_bytes, 5U);
  EXPECT_FALSE(devices[0].mig);
  EXPECT_EQ(devices[1].free_bytes, 3U);
  EXPECT_TRUE(devices[1].mig);
  EXPECT_EQ(devices[2].free_bytes, kUnknownBytes);
  EXPECT_FALSE(devices[2].mig);
}

}  // namespace
}  // namespace cuspan::proxy
