#include "launcher/gpu_wish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GpuWish, IsAllThatAreFreeUnlessSaidOtherwise) {
  const Result<GpuWish> wish = CheckGpuWish({});
  ASSERT_TRUE(wish.ok());
  EXPECT_FALSE(wish->number || wish->all || wish->wait_seconds);
  EXPECT_EQ(wish->policy, Policy::kLocalFirst);
  EXPECT_THAT(GpuWishOptions(*wish), IsEmpty());
}

TEST(GpuWish, GoesToTheAgentAsItWasWritten) {
  GpuWishTexts texts;
  texts.gpus = "3";
  texts.policy = "spread";
  texts.wait = "60";
  texts.memory = "40G";
  texts.capability = "8.0";
  Result<GpuWish> wish = CheckGpuWish(texts);
  ASSERT_TRUE(wish.ok());
  EXPECT_EQ(wish->least_memory_bytes, std::uint64_t{40} << 30);
  EXPECT_EQ(wish->least_capability, 80U);
  wish->order = 7;
  wish->program = "-p";
  EXPECT_THAT(GpuWishOptions(*wish), ElementsAre("--gpus", "3", "--policy", "spread", "--wait=60",
                                                 "--min-memory", "42949672960", "--min-capability",
                                                 "8.0", "--order", "7", "--program=-p"));
  GpuWishTexts all;
  all.gpus = "all";
  all.no_wait = true;
  EXPECT_THAT(GpuWishOptions(*CheckGpuWish(all)), ElementsAre("--gpus", "all", "--no-wait"));
}

TEST(GpuWish, RefusesWhatMeansNothingAndNamesTheOption) {
  const auto refused = [](std::string GpuWishTexts::*field, const char* text) {
    GpuWishTexts texts;
    texts.*field = text;
    const Result<GpuWish> wish = CheckGpuWish(texts);
    return wish.ok() ? "accepted" : wish.status().message();
  };
  for (const char* text : {"0", "-1", "1.5", "4097", "any", "99999999999999999999"})
    EXPECT_THAT(refused(&GpuWishTexts::gpus, text), HasSubstr("--gpus"));
  for (const char* text : {"-1", "soon", "1s", "99999999999"})
    EXPECT_THAT(refused(&GpuWishTexts::wait, text), HasSubstr("--wait"));
  for (const char* text : {"G", "4X", "-1G", "99999999999999999T", "1.5G"})
    EXPECT_THAT(refused(&GpuWishTexts::memory, text), HasSubstr("--min-memory"));
  for (const char* text : {"9", "9.", ".0", "9.10", "900.0", "nine"})
    EXPECT_THAT(refused(&GpuWishTexts::capability, text), HasSubstr("--min-capability"));
  EXPECT_THAT(refused(&GpuWishTexts::policy, "best"), HasSubstr("--policy"));
}

}  // namespace
}  // namespace cuspan
