#include "launcher/agent/node/visible_devices.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using Numbers = std::vector<std::uint32_t>;

std::vector<DeviceDescription> Devices(std::uint32_t count) {
  std::vector<DeviceDescription> devices(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    devices[i].uuid[0] = 0xab;
    devices[i].uuid[1] = static_cast<std::uint8_t>(i << 4);
  }
  return devices;
}

VisibleChoice Choice(const char* choice, std::uint32_t devices_a_rank = 0, std::uint32_t rank = 0) {
  const std::vector<DeviceDescription> devices = Devices(4);
  VisibleDevices visible;
  visible.chosen = choice != nullptr;
  visible.choice = choice != nullptr ? choice : "";
  visible.devices_a_rank = devices_a_rank;
  visible.rank = rank;
  const Result<VisibleChoice> chosen = ChooseVisible(devices, visible);
  EXPECT_TRUE(chosen.ok()) << chosen.status().message();
  if (!chosen.ok()) return {};
  EXPECT_EQ(chosen->devices.empty(), chosen->result != 0);
  return *chosen;
}

Numbers Choose(const char* choice, std::uint32_t devices_a_rank = 0, std::uint32_t rank = 0) {
  return Choice(choice, devices_a_rank, rank).devices;
}

TEST(VisibleDevices, AllWithoutAChoice) { EXPECT_EQ(Choose(nullptr), (Numbers{0, 1, 2, 3})); }

TEST(VisibleDevices, NumbersInTheOrderOfTheChoice) {
  EXPECT_EQ(Choose("2,0"), (Numbers{2, 0}));
  EXPECT_EQ(Choose(" 3 , 1 "), (Numbers{3, 1}));
}

// Each list was tested with the driver of an H200.
TEST(VisibleDevices, NumbersAreReadAsTheDriverReadsThem) {
  for (const char* choice : {"0abc", "+0", "-0", "00", "0x0", "0;1", "0:1", "0.9", "0e0", "\t0",
                             "\n0", "0 ", "0,", "4294967296"})
    EXPECT_EQ(Choose(choice), (Numbers{0})) << choice;
  EXPECT_EQ(Choose("1a,2b"), (Numbers{1, 2}));
  EXPECT_EQ(Choose("0,2 1"), (Numbers{0, 2}));
  for (const char* choice : {"abc", ",0", ",", " ", "4294967295", "18446744073709551616", "--0",
                             "+-0", "'0'", "010", "08", "- 0", ";0", "none", "all"})
    EXPECT_EQ(Choose(choice), Numbers{}) << choice;
  EXPECT_EQ(Choice("0a,0b").result, 101);
}

TEST(VisibleDevices, WhatIsNotThereEndsTheList) {
  EXPECT_EQ(Choose("1,4,0"), (Numbers{1}));
  EXPECT_EQ(Choose("-1,0"), Numbers{});
  EXPECT_EQ(Choose("0,,1"), (Numbers{0}));
  EXPECT_EQ(Choose("0,all"), (Numbers{0}));
  EXPECT_EQ(Choose("99999999999999999999"), Numbers{});
  EXPECT_EQ(Choose(""), Numbers{});
}

// Like the driver on an H200: an error, unless the list ended before.
TEST(VisibleDevices, ADeviceThatIsThereTwiceIsAnError) {
  EXPECT_EQ(Choice("0,1,0,2").result, 101);
  EXPECT_EQ(Choice("GPU-ab1,GPU-ab10-0000").result, 101);
  EXPECT_EQ(Choose("0,-1,0"), (Numbers{0}));
}

TEST(VisibleDevices, NoDeviceIsAnErrorToo) {
  EXPECT_EQ(Choice("").result, 100);
  EXPECT_EQ(Choice("7").result, 100);
}

TEST(VisibleDevices, AListIsOfOneKind) {
  EXPECT_EQ(Choose("1,GPU-ab0"), (Numbers{1}));
  EXPECT_EQ(Choose("GPU-ab0,1"), (Numbers{0}));
}

TEST(VisibleDevices, IdentifiersByTheirBeginning) {
  EXPECT_EQ(Choose("GPU-ab2"), (Numbers{2}));
  EXPECT_EQ(Choose("GPU-AB30,GPU-ab00-0000"), (Numbers{3, 0}));
  // The prefix must be unique.
  EXPECT_EQ(Choose("GPU-ab"), Numbers{});
  EXPECT_EQ(Choose("GPU-"), Numbers{});
  EXPECT_EQ(Choose("GPU-cd"), Numbers{});
  EXPECT_EQ(Choose("GPU-ab2--"), (Numbers{2}));
  for (const char* choice : {"GPU-ab2x", "GPU-ab2 ", "GPU-ab2;1", "GPU-x"})
    EXPECT_EQ(Choose(choice), Numbers{}) << choice;
  // A full identifier may have any suffix, but no prefix.
  const std::string whole = "GPU-ab200000-0000-0000-0000-000000000000";
  for (const char* behind : {"", "0", " ", "x", ";1", "/0/0"})
    EXPECT_EQ(Choose((whole + behind).c_str()), (Numbers{2})) << behind;
  for (const std::string& choice : {" " + whole, "gpu-ab2" + whole.substr(7), whole.substr(4),
                                    "GPU- " + whole.substr(4), "GPU" + whole.substr(4)})
    EXPECT_EQ(Choose(choice.c_str()), Numbers{}) << choice;
  EXPECT_EQ(Choose("GPU-ab200000000000000000000000000000"), (Numbers{2}));
}

TEST(VisibleDevices, ARankHasItsShare) {
  EXPECT_EQ(Choose(nullptr, 1, 3), (Numbers{3}));
  EXPECT_EQ(Choose(nullptr, 2, 1), (Numbers{2, 3}));
  EXPECT_EQ(Choose("1", 2, 1), (Numbers{3}));
}

TEST(VisibleDevices, ARankWithoutAShareIsRefused) {
  for (const std::uint32_t rank : {2U, 0xffff'ffffU}) {
    VisibleDevices visible;
    visible.devices_a_rank = 2;
    visible.rank = rank;
    const Result<VisibleChoice> chosen = ChooseVisible(Devices(4), visible);
    ASSERT_FALSE(chosen.ok());
    EXPECT_NE(chosen.status().message().find("has no GPUs: the run has 4"), std::string::npos)
        << chosen.status().message();
  }
}

}  // namespace
}  // namespace cuspan
