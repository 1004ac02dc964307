#include "common/large_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cuspan {
namespace {

TEST(LargeBytesTest, AreWritableFromFirstToLast) {
  for (const std::size_t bytes : {1U, 4096U, (4U << 20) - 1, 4U << 20, (8U << 20) + 3}) {
    const LargeBytes large(bytes);
    ASSERT_EQ(large.size(), bytes);
    std::fill(large.all().begin(), large.all().end(), std::byte{5});
    EXPECT_EQ(large.data()[bytes - 1], std::byte{5});
  }
}

TEST(LargeBytesTest, AreCopiedMovedAndShortened) {
  const std::vector<std::byte> from(5 << 20, std::byte{3});
  LargeBytes copied{std::span(from)};
  const LargeBytes moved = std::move(copied);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), moved.all().begin(), moved.all().end()));
  LargeBytes shortened{std::span(from)};
  shortened.Shorten(from.size() + 1);
  EXPECT_EQ(shortened.size(), from.size());
  shortened.Shorten(7);
  EXPECT_EQ(shortened.all().size(), 7U);
}

TEST(LargeBytesTest, MayBeEmpty) {
  EXPECT_EQ(LargeBytes().size(), 0U);
  EXPECT_TRUE(LargeBytes(0).all().empty());
  EXPECT_TRUE(LargeBytes(std::span<const std::byte>()).all().empty());
}

}  // namespace
}  // namespace cuspan
