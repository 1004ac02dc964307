#include "store/layout/geometry.h"

#include <gtest/gtest.h>

#include <limits>

namespace cuspan::store {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

TEST(GeometryTest, CachesOfAllLines) {
  for (std::uint32_t line = kMinLine; line <= kMaxLine; line *= 2) {
    const Result<CacheGeometry> cache = PlanCache(std::uint64_t{line} * 100 + line - 1, line);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    EXPECT_EQ(cache->slots, 100u);
    EXPECT_EQ(cache->line(), line);
    EXPECT_EQ(cache->bytes(), std::uint64_t{line} * 100);
  }
}

TEST(GeometryTest, CachesThatDoNotFit) {
  EXPECT_FALSE(PlanCache(1 << 20, 0).ok());
  EXPECT_FALSE(PlanCache(1 << 20, kMinLine / 2).ok());
  EXPECT_FALSE(PlanCache(1 << 20, kMaxLine * 2).ok());
  EXPECT_FALSE(PlanCache(1 << 20, 768).ok());
  EXPECT_FALSE(PlanCache(4 * 512 - 1, 512).ok());
  EXPECT_TRUE(PlanCache(4 * 512, 512).ok());
  EXPECT_TRUE(PlanCache(kMaxSlots * 512, 512).ok());
  EXPECT_FALSE(PlanCache((kMaxSlots + 1) * 512, 512).ok());
  EXPECT_FALSE(PlanCache(kHuge, kMaxLine).ok());
}

TEST(GeometryTest, Elements) {
  for (std::uint32_t bytes = 1; bytes <= kMaxElement; bytes *= 2)
    EXPECT_TRUE(CheckElement({bytes, 'u'}, 512).ok()) << bytes;
  for (const std::uint32_t bytes : {0u, 3u, 12u, 1024u})
    EXPECT_FALSE(CheckElement({bytes, 0}, 4096).ok()) << bytes;
  EXPECT_FALSE(CheckElement({4, 'x'}, 4096).ok());
}

cuspanArrayConfig_t Config(std::uint32_t element, std::uint64_t offset = 0) {
  cuspanArrayConfig_t config = {};
  config.element = element;
  config.offset = offset;
  return config;
}

TEST(GeometryTest, WholeRawFiles) {
  const Result<ArrayShape> shape = ShapeOfRaw(Config(8, 16), 96);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->start, 16u);
  EXPECT_EQ(shape->count, 10u);
  EXPECT_EQ(shape->sizes[0], 10u);
  EXPECT_EQ(ShapeOfRaw(Config(8), 0)->count, 0u);
  EXPECT_FALSE(ShapeOfRaw(Config(8), 7).ok());
  EXPECT_FALSE(ShapeOfRaw(Config(8, 104), 96).ok());
}

TEST(GeometryTest, ShapesOfRawFiles) {
  cuspanArrayConfig_t config = Config(4);
  config.dimensions = 3;
  config.shape[0] = 2;
  config.shape[1] = 3;
  config.shape[2] = 4;
  const Result<ArrayShape> shape = ShapeOfRaw(config, 96);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->count, 24u);
  EXPECT_TRUE(CheckShape(*shape, 4, 96).ok());
  EXPECT_FALSE(CheckShape(*shape, 4, 95).ok());
  config.shape[0] = config.shape[1] = std::uint64_t{1} << 40;
  EXPECT_FALSE(CheckShape(*ShapeOfRaw(config, 96), 4, 96).ok());
  config.shape[2] = 0;
  EXPECT_EQ(ShapeOfRaw(config, 96)->count, 0u);
  config.dimensions = 5;
  EXPECT_FALSE(ShapeOfRaw(config, 96).ok());
}

TEST(GeometryTest, ElementsAcrossLines) {
  ArrayShape shape;
  shape.start = 4;
  shape.count = 1;
  EXPECT_TRUE(CheckShape(shape, 4, 96).ok());
  EXPECT_FALSE(CheckShape(shape, 8, 96).ok());
  shape.start = kHuge - 7;
  EXPECT_FALSE(CheckShape(shape, 8, 96).ok());
}

TEST(GeometryTest, WordsOfLines) {
  const CacheGeometry cache = *PlanCache(1 << 20, 512);
  EXPECT_EQ(LinesOf(0, cache), 0u);
  EXPECT_EQ(LinesOf(1, cache), 1u);
  EXPECT_EQ(LinesOf(513, cache), 2u);
  EXPECT_EQ(ExtentsOf(kExtentBytes), 1u);
  EXPECT_EQ(ExtentsOf(kExtentBytes + 1), 2u);
  // 2,048 lines need 16 KiB.
  EXPECT_TRUE(CheckTable(1 << 20, cache, 8 * 16384).ok());
  const Status longer = CheckTable(1 << 20, cache, 8 * 16384 - 1);
  EXPECT_EQ(longer.code(), StatusCode::kInvalid);
  EXPECT_TRUE(longer.message().ends_with("take lines of 1024 bytes")) << longer.message();
  EXPECT_FALSE(CheckTable(std::uint64_t{1} << 40, cache, 1 << 20).ok());
}

}  // namespace
}  // namespace cuspan::store
