// Ranges mapped by the program itself.
#include "interpose/client/memory/mapped_ranges.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(MappedRanges, AreFoundByAnyAddress) {
  MappedRanges ranges;
  EXPECT_FALSE(ranges.Find(0));
  ranges.Add({100, 10}, true);
  ranges.Add({110, 20}, false);
  EXPECT_FALSE(ranges.Find(99));
  ASSERT_TRUE(ranges.Find(109));
  EXPECT_EQ(ranges.Find(109)->base, 100U);
  ASSERT_TRUE(ranges.Find(129));
  EXPECT_EQ(ranges.Find(129)->bytes, 20U);
  EXPECT_FALSE(ranges.Find(130));
  EXPECT_TRUE(ranges.Owns(100));
  EXPECT_FALSE(ranges.Owns(110));
  ranges.Remove(100);
  EXPECT_FALSE(ranges.Find(100));
  EXPECT_FALSE(ranges.Owns(100));
}

TEST(MappedRanges, CoverWhatIsSideBySideAndAccessible) {
  MappedRanges ranges;
  ranges.Add({100, 10}, true);
  ranges.Add({110, 20}, true);
  ranges.Add({140, 10}, true);
  EXPECT_FALSE(ranges.Covers(100, 1)) << "mappings begin without access";
  for (const std::uint64_t base : {100, 110, 140}) ranges.SetAccess(base, true);
  EXPECT_TRUE(ranges.Covers(100, 30));
  EXPECT_TRUE(ranges.Covers(105, 25));
  EXPECT_FALSE(ranges.Covers(105, 26)) << "a gap";
  EXPECT_FALSE(ranges.Covers(99, 2));
  EXPECT_TRUE(ranges.Covers(140, 10));
  EXPECT_FALSE(ranges.Covers(140, 11));
  EXPECT_FALSE(ranges.Covers(150, 1));
  EXPECT_FALSE(ranges.Covers(100, ~std::uint64_t{0}));
  ranges.SetAccess(110, false);
  EXPECT_TRUE(ranges.Covers(100, 10));
  EXPECT_FALSE(ranges.Covers(100, 11));
  ranges.SetAccess(500, true);
  EXPECT_FALSE(ranges.Find(500));
}

}  // namespace
}  // namespace cuspan
