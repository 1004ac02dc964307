#include "interpose/cufile/parameters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cuspan::cufile {
namespace {

class ParametersTest : public testing::Test {
 protected:
  ~ParametersTest() override {
    ::unsetenv("CUFILE_ENV_PATH_JSON");
    std::filesystem::remove(path_);
  }
  // The parameters of a program with these settings.
  Parameters With(const std::string& settings) {
    std::ofstream(path_) << settings;
    ::setenv("CUFILE_ENV_PATH_JSON", path_.c_str(), 1);
    return {};
  }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("cufile." + std::to_string(::getpid()));
};

TEST_F(ParametersTest, SizesHaveRangesAndSteps) {
  Parameters parameters;
  std::size_t value = 0;
  EXPECT_EQ(parameters.Size(kMaxDirectIo, &value), kSuccess);
  EXPECT_EQ(value, 16384U);
  EXPECT_EQ(parameters.SetSize(kMaxDirectIo, 1024), kSuccess);
  EXPECT_EQ(parameters.size(kMaxDirectIo), 1024U);
  for (const std::size_t wrong : {0, 63, 65, 16385, 32768})
    EXPECT_EQ(parameters.SetSize(kMaxDirectIo, wrong), kInvalidValue) << wrong;
  EXPECT_EQ(parameters.size(kMaxDirectIo), 1024U);
  for (const int unknown : {-1, 12, 1000}) {
    EXPECT_EQ(parameters.Size(unknown, &value), kInvalidValue);
    EXPECT_EQ(parameters.SetSize(unknown, 64), kInvalidValue);
    EXPECT_EQ(Parameters::RangeOf(unknown), nullptr);
  }
  EXPECT_EQ(parameters.Size(kMaxDirectIo, nullptr), kInvalidValue);
}

TEST_F(ParametersTest, SwitchesAndTexts) {
  Parameters parameters;
  bool on = false;
  EXPECT_EQ(parameters.Switch(kAllowCompatible, &on), kSuccess);
  EXPECT_TRUE(on);
  EXPECT_EQ(parameters.SetSwitch(kPollMode, true), kSuccess);
  EXPECT_TRUE(parameters.is_set(kPollMode));
  EXPECT_EQ(parameters.Switch(14, &on), kInvalidValue);
  EXPECT_EQ(parameters.SetSwitch(-1, true), kInvalidValue);
  EXPECT_EQ(parameters.Switch(kPollMode, nullptr), kInvalidValue);

  std::array<char, 6> text{};
  EXPECT_EQ(parameters.Text(0, text.data(), 6), kSuccess);
  EXPECT_STREQ(text.data(), "ERROR");
  EXPECT_EQ(parameters.Text(0, text.data(), 5), kInvalidValue);
  EXPECT_EQ(parameters.Text(0, nullptr, 6), kInvalidValue);
  EXPECT_EQ(parameters.SetText(0, "INFO"), kSuccess);
  EXPECT_EQ(parameters.Text(0, text.data(), 6), kSuccess);
  EXPECT_STREQ(text.data(), "INFO");
  EXPECT_EQ(parameters.SetText(0, ""), kInvalidValue);
  EXPECT_EQ(parameters.SetText(0, nullptr), kInvalidValue);
  EXPECT_EQ(parameters.SetText(0, std::string(5000, 'x').c_str()), kInvalidValue);
  EXPECT_EQ(parameters.SetText(4, "x"), kInvalidValue);
}

TEST_F(ParametersTest, Slabs) {
  Parameters parameters;
  std::array<std::size_t, 3> sizes{};
  std::array<std::size_t, 3> counts{};
  EXPECT_EQ(parameters.GetSlabs(0, sizes.data(), counts.data(), 3), kSuccess);
  EXPECT_EQ(sizes, (std::array<std::size_t, 3>{4, 1024, 16384}));
  EXPECT_EQ(parameters.GetSlabs(0, sizes.data(), counts.data(), 2), kInvalidValue);
  EXPECT_EQ(parameters.GetSlabs(0, nullptr, counts.data(), 3), kInvalidValue);
  const std::array<std::size_t, 2> good{8, 64};
  const std::array<std::size_t, 2> descending{64, 8};
  const std::array<std::size_t, 2> odd{8, 65};
  const std::array<std::size_t, 2> none{8, 0};
  EXPECT_EQ(parameters.SetSlabs(0, good.data(), good.data(), 2), kSuccess);
  EXPECT_EQ(parameters.GetSlabs(0, sizes.data(), counts.data(), 2), kSuccess);
  EXPECT_EQ(sizes[1], 64U);
  EXPECT_EQ(parameters.SetSlabs(0, descending.data(), good.data(), 2), kInvalidValue);
  EXPECT_EQ(parameters.SetSlabs(0, odd.data(), good.data(), 2), kInvalidValue);
  EXPECT_EQ(parameters.SetSlabs(0, good.data(), none.data(), 2), kInvalidValue);
  EXPECT_EQ(parameters.SetSlabs(0, good.data(), good.data(), 1000), kInvalidValue);
}

TEST_F(ParametersTest, SettingsChangeThem) {
  const Parameters parameters = With(R"({ // As in NVIDIA's file.
    "properties": {"io_batchsize": 32, "use_poll_mode": true,
                   "posix_pool_slab_size_kb": [4, 8], "posix_pool_slab_count": [1, 2]},
    "profile": {"cufile_stats": 2}, "logging": {"level": "TRACE"}, "unknown": {"x": []}})");
  EXPECT_EQ(parameters.size(kMaxBatch), 32U);
  EXPECT_EQ(parameters.size(kStatisticsLevel), 2U);
  EXPECT_TRUE(parameters.is_set(kPollMode));
  std::array<std::size_t, 2> sizes{};
  std::array<std::size_t, 2> counts{};
  EXPECT_EQ(parameters.GetSlabs(0, sizes.data(), counts.data(), 2), kSuccess);
  EXPECT_EQ(counts[1], 2U);
}

TEST_F(ParametersTest, WrongSettingsLeaveTheDefaults) {
  const Parameters defaults;
  for (const char* settings :
       {"", "[]", "{", "\"text\"", "{\"properties\": 5}",
        "{\"properties\": {\"io_batchsize\": -1}}", "{\"properties\": {\"io_batchsize\": 257}}",
        "{\"properties\": {\"io_batchsize\": \"64\"}}",
        "{\"properties\": {\"io_batchsize\": 1e300}}", "{\"properties\": {\"use_poll_mode\": 1}}",
        "{\"properties\": {\"posix_pool_slab_size_kb\": [3]}}", "{\"logging\": {\"level\": 7}}"}) {
    const Parameters parameters = With(settings);
    EXPECT_EQ(parameters.size(kMaxBatch), defaults.size(kMaxBatch)) << settings;
    EXPECT_EQ(parameters.is_set(kPollMode), defaults.is_set(kPollMode)) << settings;
  }
}

}  // namespace
}  // namespace cuspan::cufile
