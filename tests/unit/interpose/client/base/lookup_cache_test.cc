#include "interpose/client/base/lookup_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cuspan {
namespace {

TEST(LookupCache, FindsWhatWasKept) {
  LookupCache<int, 4> cache;
  EXPECT_EQ(cache.Find(3), nullptr);
  const auto value = std::make_shared<int>(7);
  EXPECT_EQ(cache.Keep(3, value).get(), value.get());
  EXPECT_EQ(cache.Find(3).get(), value.get());
  EXPECT_EQ(cache.Find(4), nullptr);
}

TEST(LookupCache, AnotherVersionIsAnotherValue) {
  LookupCache<int, 4> cache;
  const auto first = std::make_shared<int>(7);
  const auto second = std::make_shared<int>(8);
  cache.Keep(3, first, 1);
  EXPECT_EQ(cache.Find(3, 2), nullptr);
  EXPECT_EQ(cache.Find(3, 1), first);
  cache.Keep(3, second, 2);
  EXPECT_EQ(cache.Find(3, 1), nullptr);
  EXPECT_EQ(cache.Find(3, 2), second);
}

TEST(LookupCache, TheLastOfAPlaceStays) {
  LookupCache<int, 4> cache;
  std::vector<std::shared_ptr<int>> values;
  for (std::uint64_t key = 1; key <= 100; ++key) {
    values.push_back(std::make_shared<int>(static_cast<int>(key)));
    cache.Keep(key, values.back());
    EXPECT_EQ(cache.Find(key), values.back());
  }
  int found = 0;
  for (std::uint64_t key = 1; key <= 100; ++key)
    if (const auto value = cache.Find(key)) found += *value == static_cast<int>(key) ? 1 : 100;
  EXPECT_EQ(found, 4);
}

// Handles created one after another are often used together.
TEST(LookupCache, HandlesMadeOneAfterAnotherFitSideBySide) {
  for (std::uint64_t round = 0; round < 1000; ++round) {
    const std::uint64_t first = 0x6375'0000'0000'0010 + 0x10 * round;  // The form of NextHandle.
    LookupCache<int, 16> cache;
    const auto value = std::make_shared<int>(1);
    for (std::uint64_t i = 0; i < 8; ++i) cache.Keep(first + 0x10 * i, value);
    int found = 0;
    for (std::uint64_t i = 0; i < 8; ++i) found += cache.Find(first + 0x10 * i) != nullptr ? 1 : 0;
    EXPECT_EQ(found, 8) << "from " << first;
  }
}

// An idle thread must not keep a reset device and its channel alive.
TEST(LookupCache, DoesNotKeepWhatItKnowsAlive) {
  LookupCache<int, 4> cache;
  auto value = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = value;
  EXPECT_EQ(*cache.Keep(1, value), 1);
  value.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(cache.Find(1), nullptr);
}

// A copy keeps the value alive, even after the end of the cache and its thread.
TEST(LookupCache, CopiesOutliveTheCache) {
  std::shared_ptr<int> copy;
  std::thread([&] {
    LookupCache<int, 4> cache;
    copy = cache.Keep(2, std::make_shared<int>(9));
  }).join();
  EXPECT_EQ(*copy, 9);
}

}  // namespace
}  // namespace cuspan
