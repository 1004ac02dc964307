#include "interpose/client/lookup_cache.h"

#include <gtest/gtest.h>

#include <thread>

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
  const auto first = std::make_shared<int>(1);
  const auto second = std::make_shared<int>(5);
  cache.Keep(1, first);
  cache.Keep(5, second);
  EXPECT_EQ(cache.Find(1), nullptr);
  EXPECT_EQ(cache.Find(5), second);
}

// A thread that asks for nothing any more must not hold a device that was reset, with its channel.
TEST(LookupCache, DoesNotKeepWhatItKnowsAlive) {
  LookupCache<int, 4> cache;
  auto value = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = value;
  EXPECT_EQ(*cache.Keep(1, value), 1);
  value.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(cache.Find(1), nullptr);
}

// Whoever has a copy keeps the value, also when the cache and its thread are gone.
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
