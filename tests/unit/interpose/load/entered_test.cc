// Records of programs and libraries with a CUDA runtime linked in.
#include "interpose/load/entered.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "interpose/load/load.h"

namespace cuspan::load {
namespace {

// Addresses far from each other and from all objects really loaded.
constexpr std::uint64_t kBias = 0x1000'0000;
constexpr std::uint64_t kStep = 0x100'0000;

class EnteredObjects : public testing::Test {
 protected:
  EnteredObjects() {
    EXPECT_EQ(image.Parse({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}),
              ElfImage::Verdict::kUsable);
    EXPECT_TRUE(image.DynamicAddress(&dynamic));
  }
  ~EnteredObjects() override { Walk({}); }

  static std::uint64_t BiasOf(std::size_t object) { return kBias + object * kStep; }
  int ReleaseAt(std::size_t object) const {
    return LinkedRuntimeRelease(reinterpret_cast<const void*>(BiasOf(object) + dynamic));
  }
  // Walks a loader's list with these objects, each loaded at its own bias.
  void Walk(const std::vector<std::size_t>& loaded) const {
    BeginWalk();
    for (const std::size_t object : loaded) Meet(BiasOf(object) + dynamic);
    EndWalk();
  }

  std::ifstream file{PROGRAMS "/libvadd_static.so", std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  ElfImage image;
  std::uint64_t dynamic = 0;
};

TEST_F(EnteredObjects, EachKeepsItsRelease) {
  RememberRelease(image, BiasOf(0), 11);
  RememberRelease(image, BiasOf(1), 12);
  EXPECT_EQ(ReleaseAt(0), 11);
  EXPECT_EQ(ReleaseAt(1), 12);
  EXPECT_EQ(ReleaseAt(2), 0);
  Walk({0, 1});
  EXPECT_EQ(ReleaseAt(0), 11);
  EXPECT_EQ(ReleaseAt(1), 12);
}

// Each runtime has its own identity (for last errors), even if loaded at the address of an earlier
// one.
TEST_F(EnteredObjects, EachRuntimeIsAnotherOne) {
  const auto runtime_at = [this](std::size_t object) {
    return LinkedRuntime(reinterpret_cast<const void*>(BiasOf(object) + dynamic));
  };
  RememberRelease(image, BiasOf(0), 12);
  RememberRelease(image, BiasOf(1), 12);
  const std::uint64_t first = runtime_at(0);
  EXPECT_NE(first, 0U);
  EXPECT_NE(runtime_at(1), 0U);
  EXPECT_NE(runtime_at(1), first);
  EXPECT_EQ(runtime_at(2), 0U);
  Walk({1});
  EXPECT_EQ(runtime_at(0), 0U);
  RememberRelease(image, BiasOf(0), 12);
  EXPECT_NE(runtime_at(0), 0U);
  EXPECT_NE(runtime_at(0), first);
}

// An object without a runtime may be loaded at the same address.
TEST_F(EnteredObjects, WhatWasUnloadedIsForgotten) {
  RememberRelease(image, BiasOf(0), 11);
  RememberRelease(image, BiasOf(1), 12);
  Walk({1, 2});
  EXPECT_EQ(ReleaseAt(0), 0);
  EXPECT_EQ(ReleaseAt(1), 12);
}

TEST_F(EnteredObjects, LibrariesMayComeAndGoAnyNumberOfTimes) {
  RememberRelease(image, BiasOf(1), 12);
  for (int round = 0; round < 1000; ++round) {
    const int release = round % 2 == 0 ? 11 : 12;
    RememberRelease(image, BiasOf(0), release);
    ASSERT_EQ(ReleaseAt(0), release) << round;
    ASSERT_EQ(ReleaseAt(1), 12) << round;
    Walk({1});
    ASSERT_EQ(ReleaseAt(0), 0) << round;
  }
}

TEST_F(EnteredObjects, MoreThanFitAreOfNoRelease) {
  std::vector<std::size_t> loaded;
  for (std::size_t object = 0; object < 300; ++object) {
    RememberRelease(image, BiasOf(object), 11);
    loaded.push_back(object);
  }
  EXPECT_EQ(ReleaseAt(0), 11);
  EXPECT_EQ(ReleaseAt(299), 0);
  // Free slots are reused.
  loaded.erase(loaded.begin());
  Walk(loaded);
  RememberRelease(image, BiasOf(299), 12);
  EXPECT_EQ(ReleaseAt(299), 12);
}

}  // namespace
}  // namespace cuspan::load
