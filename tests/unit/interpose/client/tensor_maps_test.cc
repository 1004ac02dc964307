#include "interpose/client/tensor_maps.h"

#include <gtest/gtest.h>

#include "ops.gen.h"

namespace cuspan {
namespace {

// A fake driver. Each map holds the number of maps made so far.
class TensorMapsTest : public ::testing::Test {
 protected:
  template <typename Op>
  std::uint64_t Get(const Op& op, CUresult result = CUDA_SUCCESS) {
    TensorMaps::Map map{};
    const auto ask = [&](const Op& asked, typename Op::Reply* reply) {
      EXPECT_EQ(asked.kOp, op.kOp);
      reply->map[15] = ++asked_;
      return result;
    };
    EXPECT_EQ(maps_.Get(op, ask, &map), result);
    return map[15];
  }

  TensorMaps maps_;
  std::uint64_t asked_ = 0;
};

TensorMapTiled Tiled(std::uint64_t address) {
  TensorMapTiled op;
  op.layout.address = address;
  return op;
}

TEST_F(TensorMapsTest, TheSameArgumentsAreAskedForOnce) {
  EXPECT_EQ(Get(Tiled(16)), 1U);
  EXPECT_EQ(Get(Tiled(32)), 2U);
  EXPECT_EQ(Get(Tiled(16)), 1U);
  EXPECT_EQ(Get(Tiled(32)), 2U);
  TensorMapTiled other = Tiled(16);
  other.box[4] = 1;
  EXPECT_EQ(Get(other), 3U);
  EXPECT_EQ(asked_, 3U);
}

TEST_F(TensorMapsTest, KindsAreToldApart) {
  TensorMapIm2colWide wide;
  TensorMapIm2col im2col;
  EXPECT_EQ(Get(wide), 1U);
  EXPECT_EQ(Get(im2col), 2U);
  EXPECT_EQ(Get(TensorMapTiled{}), 3U);
  EXPECT_EQ(Get(TensorMapAddress{}), 4U);
  EXPECT_EQ(Get(wide), 1U);
}

TEST_F(TensorMapsTest, FailuresAreNotKept) {
  EXPECT_EQ(Get(Tiled(16), CUDA_ERROR_NOT_SUPPORTED), 0U);
  EXPECT_EQ(Get(Tiled(16)), 2U);
  EXPECT_EQ(Get(Tiled(16)), 2U);
}

TEST_F(TensorMapsTest, ThereAreNeverTooMany) {
  for (std::uint64_t i = 1; i <= 10'000; ++i) EXPECT_EQ(Get(Tiled(16 * i)), i);
  EXPECT_EQ(Get(Tiled(16 * 10'000)), 10'000U) << "the last one is there";
  EXPECT_GT(Get(Tiled(16)), 10'000U) << "the first one is not";
}

}  // namespace
}  // namespace cuspan
