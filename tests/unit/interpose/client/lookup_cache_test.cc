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
  cache.Keep(3, std::make_shared<int>(7), 1);
  EXPECT_EQ(cache.Find(3, 2), nullptr);
  EXPECT_EQ(*cache.Find(3, 1), 7);
  cache.Keep(3, std::make_shared<int>(8), 2);
  EXPECT_EQ(cache.Find(3, 1), nullptr);
  EXPECT_EQ(*cache.Find(3, 2), 8);
}

TEST(LookupCache, TheLastOfAPlaceStays) {
  LookupCache<int, 4> cache;
  std::weak_ptr<int> first;
  {
    const auto value = std::make_shared<int>(1);
    first = value;
    cache.Keep(1, value);
  }
  EXPECT_FALSE(first.expired());
  cache.Keep(5, std::make_shared<int>(5));
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(cache.Find(1), nullptr);
  EXPECT_EQ(*cache.Find(5), 5);
}

// Whoever has a copy keeps the value, also when the cache and its thread are gone.
TEST(LookupCache, CopiesOutliveTheCache) {
  std::shared_ptr<int> copy;
  std::weak_ptr<int> original;
  std::thread([&] {
    LookupCache<int, 4> cache;
    const auto value = std::make_shared<int>(9);
    original = value;
    copy = cache.Keep(2, value);
  }).join();
  ASSERT_FALSE(original.expired());
  EXPECT_EQ(*copy, 9);
  copy.reset();
  EXPECT_TRUE(original.expired());
}

}  // namespace
}  // namespace cuspan
