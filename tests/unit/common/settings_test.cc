#include "common/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

namespace cuspan {
namespace {

constexpr Setting kNumber{"CUSPAN_TEST_NUMBER", "16", "a number"};
constexpr std::uint64_t kAny = ~std::uint64_t{0};

// Sets the variable for one test.
class Settings : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv(kNumber.name); }
  void Set(const char* text) { ASSERT_EQ(::setenv(kNumber.name, text, 1), 0); }
};

TEST(AllSettings, AreNamedAlikeAndOnce) {
  std::set<std::string> names;
  for (const Setting& setting : AllSettings()) {
    EXPECT_NE(std::string(setting.name) + setting.option, "");
    if (*setting.name != '\0') {
      EXPECT_THAT(setting.name, testing::AnyOf(testing::StartsWith("CUSPAN_"), "MPIRUN"));
      EXPECT_TRUE(names.insert(setting.name).second) << setting.name << " is there twice";
    }
    EXPECT_NE(std::string(setting.help), "") << setting.name;
    EXPECT_NE(setting.default_value, nullptr) << setting.name;
  }
}

TEST(AllSettings, OptionsAreOnceInACommand) {
  std::map<std::string, unsigned> commands;
  for (const Setting& setting : AllSettings()) {
    const std::string option = setting.option;
    EXPECT_EQ(option.empty(), setting.commands == 0) << setting.name;
    if (option.empty()) continue;
    EXPECT_THAT(option, testing::StartsWith("-"));
    EXPECT_EQ(commands[option] & setting.commands, 0U) << option << " is there twice";
    commands[option] |= setting.commands;
  }
}

TEST(AllSettings, AreInGroups) {
  std::set<SettingGroup> ended;
  SettingGroup current = AllSettings().front().group;
  for (const Setting& setting : AllSettings()) {
    if (setting.group != current) ended.insert(current);
    current = setting.group;
    EXPECT_EQ(ended.count(current), 0U) << setting.name << setting.option << " is apart";
    EXPECT_EQ(*Title(current) == '\0', current == SettingGroup::kInternal);
  }
}

TEST(AllSettings, HoldEachDeclaredOne) {
  for (const Setting& declared :
       {settings::kLog, settings::kDevice, settings::kSameNode, settings::kStagingBuffers,
        settings::kStagingBytes, settings::kSendsInFlight, settings::kHeartbeat,
        settings::kKernelTimes, settings::kSoftGpus, settings::kSoftMemory, settings::kSoftName,
        settings::kSoftCapability, settings::kSoftThreads}) {
    bool found = false;
    for (const Setting& setting : AllSettings())
      found |= std::string(setting.name) == declared.name;
    EXPECT_TRUE(found) << declared.name;
  }
}

// Ranges as in the settings' help.
TEST(AllSettings, DefaultsLieWithinTheirRanges) {
  EXPECT_TRUE(SettingNumber(settings::kStagingBuffers, 2, 64).ok());
  EXPECT_TRUE(SettingBytes(settings::kStagingBytes, 4 << 10, 64 << 20).ok());
  EXPECT_TRUE(SettingNumber(settings::kSendsInFlight, 1, 64).ok());
  EXPECT_TRUE(SettingNumber(settings::kSoftGpus, 1, 64).ok());
  EXPECT_TRUE(SettingBytes(settings::kSoftMemory, 1, kAny).ok());
}

TEST_F(Settings, TextIsTheVariableOrTheDefault) {
  EXPECT_STREQ(SettingText(kNumber), "16");
  Set("17");
  EXPECT_STREQ(SettingText(kNumber), "17");
  Set("");
  EXPECT_STREQ(SettingText(kNumber), "16");
}

TEST_F(Settings, NumbersAreReadWithinTheirRange) {
  EXPECT_EQ(SettingNumber(kNumber, 1, 64).value(), 16U);
  Set("1");
  EXPECT_EQ(SettingNumber(kNumber, 1, 64).value(), 1U);
  Set("64");
  EXPECT_EQ(SettingNumber(kNumber, 1, 64).value(), 64U);
  Set("18446744073709551615");
  EXPECT_EQ(SettingNumber(kNumber, 0, kAny).value(), kAny);
}

TEST_F(Settings, NumbersThatAreNoneAreRefused) {
  for (const char* text : {"0", "65", "-1", "+1", " 1", "1 ", "1x", "x", "1.5", "0x10", "1K",
                           "18446744073709551616", "99999999999999999999999999"}) {
    Set(text);
    const Result<std::uint64_t> number = SettingNumber(kNumber, 1, 64);
    ASSERT_FALSE(number.ok()) << text;
    EXPECT_EQ(number.status().code(), StatusCode::kInvalid);
    // The message names the variable, its value and the range.
    EXPECT_THAT(number.status().message(),
                testing::AllOf(testing::HasSubstr(kNumber.name), testing::HasSubstr(text),
                               testing::HasSubstr("1"), testing::HasSubstr("64")));
  }
}

TEST_F(Settings, BytesTakeASuffix) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},           {"4096", 4096},     {"4K", 4096},
      {"4k", 4096},       {"1M", 1 << 20},    {"3m", 3 << 20},
      {"2G", 2ULL << 30}, {"2g", 2ULL << 30}, {"17179869183G", 17179869183ULL << 30},
  };
  for (const auto& [text, bytes] : cases) {
    Set(text);
    ASSERT_TRUE(SettingBytes(kNumber, 0, kAny).ok()) << text;
    EXPECT_EQ(SettingBytes(kNumber, 0, kAny).value(), bytes) << text;
  }
}

TEST_F(Settings, BytesThatAreNoneAreRefused) {
  for (const char* text :
       {"K", "-4K", "4KB", "4 K", "4T", "4K4", "17179869184G", "18446744073709551615K", "1.5M"}) {
    Set(text);
    EXPECT_EQ(SettingBytes(kNumber, 0, kAny).status().code(), StatusCode::kInvalid) << text;
  }
}

TEST_F(Settings, TheRangeOfBytesHoldsBehindTheSuffix) {
  Set("1M");
  EXPECT_TRUE(SettingBytes(kNumber, 4096, 1 << 20).ok());
  EXPECT_FALSE(SettingBytes(kNumber, 4096, (1 << 20) - 1).ok());
  EXPECT_FALSE(SettingBytes(kNumber, (1 << 20) + 1, 1 << 30).ok());
}

TEST_F(Settings, ASwitchIsOnOrOff) {
  Set("on");
  EXPECT_TRUE(SettingSwitch(kNumber).value());
  Set("off");
  EXPECT_FALSE(SettingSwitch(kNumber).value());
  for (const char* text : {"ON", "1", "yes", "on "}) {
    Set(text);
    EXPECT_EQ(SettingSwitch(kNumber).status().code(), StatusCode::kInvalid) << text;
  }
}

}  // namespace
}  // namespace cuspan
