#include "interpose/load/cupti.h"

#include <gtest/gtest.h>

#include <random>

#include "interpose/load/exported_functions.h"
#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

constexpr std::size_t kRoom = 64;

TEST(Cupti, IsKnownByItsName) {
  EXPECT_TRUE(IsCupti("/site/nvidia/cu13/lib/libcupti.so.13"));
  EXPECT_TRUE(IsCupti("libcupti.so"));
  EXPECT_TRUE(IsCupti("/cuda/libcupti.so.2025.3.0"));
  EXPECT_FALSE(IsCupti("/libcupti.so.13/libother.so"));
  EXPECT_FALSE(IsCupti("/lib/libcuptisomething.so"));
  EXPECT_FALSE(IsCupti(""));
}

TEST(Cupti, FunctionsAndVersionAreFound) {
  const std::vector<std::uint8_t> file = ReadFile(CUPTI);
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  EXPECT_EQ(CuptiVersion(image), 130042U);
  Entry entries[kRoom];
  ASSERT_EQ(ListCupti(image, entries, kRoom), 4U);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LT(entries[i - 1].address, entries[i].address);
  EXPECT_EQ(ListCupti(image, entries, 2), 2U);
}

// A library without the function has no version, and no functions to redirect are listed.
TEST(Cupti, OtherLibrariesHaveNone) {
  const std::vector<std::uint8_t> file = ReadFile(VICTIMS);
  ElfImage image;
  ASSERT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  EXPECT_EQ(CuptiVersion(image), 0U);
  Entry entries[kRoom];
  EXPECT_EQ(ListCupti(image, entries, kRoom), 0U);
}

TEST(Cupti, DamagedFilesAreSurvived) {
  const std::vector<std::uint8_t> whole = ReadFile(CUPTI);
  std::mt19937 random(7);
  Entry entries[kRoom];
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint8_t> file = whole;
    for (int change = 0; change < 20; ++change)
      file[random() % file.size()] = static_cast<std::uint8_t>(random());
    file.resize(file.size() - random() % 200);
    ElfImage image;
    if (image.Parse(View(file)) != ElfImage::Verdict::kUsable) continue;
    EXPECT_LE(ListCupti(image, entries, kRoom), kRoom);
  }
}

}  // namespace
}  // namespace cuspan::load
