// Tests tensor maps encoded by the device's driver.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using TensorMapTest = ServerTest;

TensorLayout Layout(std::uint32_t rank) {
  TensorLayout layout;
  layout.rank = rank;
  layout.address = 0x1000;
  layout.sizes = {64, 32, 16, 8, 4};
  layout.strides = {128, 256, 512, 1024};
  layout.steps = {1, 1, 1, 1, 1};
  return layout;
}

TEST_F(TensorMapTest, TheDriverMakesThem) {
  const auto tiled = client.Call(TensorMapTiled{Layout(2), {16, 12}});
  EXPECT_EQ(tiled.result, CUDA_SUCCESS);
  EXPECT_THAT(std::vector(tiled.map.begin(), tiled.map.begin() + 5),
              ::testing::ElementsAre(0x1000, 1, 2, 32, 12));
  const auto im2col = client.Call(TensorMapIm2col{Layout(4), {-1, -1}, {1, 1}, 64, 128});
  EXPECT_EQ(im2col.result, CUDA_SUCCESS);
  EXPECT_THAT(std::vector(im2col.map.begin(), im2col.map.begin() + 5),
              ::testing::ElementsAre(0x1000, 2, 4, 64, 128));
  const auto moved = client.Call(TensorMapAddress{tiled.map, 0x2000});
  EXPECT_EQ(moved.result, CUDA_SUCCESS);
  EXPECT_EQ(moved.map[0], 0x2000U);
  EXPECT_EQ(moved.map[3], 32U);
}

TEST_F(TensorMapTest, TheDriverMayRefuse) {
  gpu.Refuse("cuTensorMapEncodeTiled", CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.Call(TensorMapTiled{Layout(1), {16}}).result, CUDA_ERROR_INVALID_VALUE);
}

// Drivers before CUDA 12.8.
TEST_F(TensorMapTest, TheDriverMayLackTheWideOnes) {
  ASSERT_EQ(gpu.driver().cuTensorMapEncodeIm2colWide, nullptr);
  EXPECT_EQ(client.Call(TensorMapIm2colWide{Layout(3), 0, 0, 64, 128, 0}).result,
            CUDA_ERROR_NOT_SUPPORTED);
}

// The driver would read past the end of the arrays.
TEST_F(TensorMapTest, ARankBeyondTheArraysEndsTheSession) {
  expect_end_ok_ = false;
  client.Post(TensorMapTiled{Layout(6), {}});
  EXPECT_FALSE(loopback.AwaitEnd().ok());
}

}  // namespace
}  // namespace cuspan::proxy
