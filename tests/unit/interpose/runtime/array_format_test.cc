#include "interpose/runtime/array_format.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(ArrayFormatTest, GoesThereAndBack) {
  const cudaChannelFormatDesc descs[] = {
      {8, 0, 0, 0, cudaChannelFormatKindUnsigned},  {16, 16, 0, 0, cudaChannelFormatKindSigned},
      {32, 32, 32, 32, cudaChannelFormatKindFloat}, {16, 0, 0, 0, cudaChannelFormatKindFloat},
      {8, 8, 8, 8, cudaChannelFormatKindSigned},    {32, 0, 0, 0, cudaChannelFormatKindUnsigned}};
  for (const auto& desc : descs) {
    const auto format = FormatOf(desc);
    ASSERT_TRUE(format);
    const cudaChannelFormatDesc back = DescOf(*format);
    EXPECT_EQ(back.x, desc.x);
    EXPECT_EQ(back.y, desc.y);
    EXPECT_EQ(back.z, desc.z);
    EXPECT_EQ(back.w, desc.w);
    EXPECT_EQ(back.f, desc.f);
  }
}

TEST(ArrayFormatTest, RefusesWhatArraysDoNotHold) {
  EXPECT_FALSE(FormatOf({32, 32, 32, 0, cudaChannelFormatKindFloat})) << "three channels";
  EXPECT_FALSE(FormatOf({8, 16, 0, 0, cudaChannelFormatKindUnsigned})) << "different channels";
  EXPECT_FALSE(FormatOf({0, 8, 0, 0, cudaChannelFormatKindUnsigned})) << "a gap";
  EXPECT_FALSE(FormatOf({64, 0, 0, 0, cudaChannelFormatKindFloat})) << "64 bits";
  EXPECT_FALSE(FormatOf({8, 0, 0, 0, cudaChannelFormatKindFloat})) << "floating point of 8 bits";
  EXPECT_FALSE(FormatOf({0, 0, 0, 0, cudaChannelFormatKindUnsigned})) << "nothing";
  EXPECT_FALSE(FormatOf({32, 0, 0, 0, cudaChannelFormatKindNone})) << "no kind";
}

}  // namespace
}  // namespace cuspan
