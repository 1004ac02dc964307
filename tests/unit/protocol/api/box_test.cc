#include "protocol/api/box.h"

#include <gtest/gtest.h>

#include <vector>

namespace cuspan {
namespace {

TEST(BoxTest, CountsBytes) {
  EXPECT_EQ(PackedBytes({10, 20, 3}), 600U);
  EXPECT_EQ(PackedBytes({0, 20, 3}), 0U);
  EXPECT_EQ(PackedBytes({1ULL << 40, 1ULL << 20, 16}), std::nullopt);
  // First to last byte: no pitch after the last row.
  EXPECT_EQ(SpannedBytes({10, 1, 1}, 64, 9), 10U);
  EXPECT_EQ(SpannedBytes({10, 4, 1}, 64, 9), 3U * 64 + 10);
  EXPECT_EQ(SpannedBytes({10, 4, 2}, 64, 9), (9U + 3) * 64 + 10);
  EXPECT_EQ(SpannedBytes({10, 4, 2}, ~0ULL, 9), std::nullopt);
  EXPECT_EQ(SpannedBytes({10, 1, 3}, 1, ~0ULL), std::nullopt);
}

// Tests every range of a small box. Its pieces contain each byte of the range once, in its
// position.
TEST(BoxTest, PiecesAreTheRange) {
  const BoxExtent box{5, 4, 3};
  constexpr std::uint64_t kBytes = 60;
  for (std::uint64_t offset = 0; offset < kBytes; ++offset) {
    for (std::uint64_t bytes = 0; bytes <= kBytes - offset; ++bytes) {
      std::uint64_t next = offset;
      int pieces = 0;
      ForEachPiece(box, offset, bytes, [&](const BoxPiece& piece) {
        ++pieces;
        ASSERT_EQ(piece.packed, next);
        ASSERT_LE(piece.x + piece.extent.width, box.width);
        ASSERT_LE(piece.y + piece.extent.rows, box.rows);
        ASSERT_LE(piece.z + piece.extent.planes, box.planes);
        for (std::uint64_t z = 0; z < piece.extent.planes; ++z)
          for (std::uint64_t y = 0; y < piece.extent.rows; ++y)
            for (std::uint64_t x = 0; x < piece.extent.width; ++x)
              ASSERT_EQ(((piece.z + z) * box.rows + piece.y + y) * box.width + piece.x + x, next++);
      });
      ASSERT_EQ(next, offset + bytes);
      ASSERT_LE(pieces, 5);
    }
  }
}

}  // namespace
}  // namespace cuspan
