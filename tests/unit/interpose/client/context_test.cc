// A thread's current contexts.
#include "interpose/client/context.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(ContextStack, IsEmptyAtFirst) {
  ContextStack stack;
  EXPECT_EQ(stack.top(), nullptr);
  EXPECT_EQ(stack.Pop(), nullptr);
}

TEST(ContextStack, SetReplacesTheTop) {
  Context first(Context::Kind::kPrimary, 1, 0);
  Context second(Context::Kind::kPrimary, 2, 1);
  ContextStack stack;
  stack.Set(&first);
  EXPECT_EQ(stack.top(), &first);
  stack.Set(&second);
  EXPECT_EQ(stack.Pop(), &second);
  EXPECT_EQ(stack.top(), nullptr);
}

TEST(ContextStack, PopsInTheOppositeOrder) {
  Context first(Context::Kind::kPrimary, 1, 0);
  Context second(Context::Kind::kPrimary, 2, 0);
  ContextStack stack;
  stack.Push(&first);
  stack.Push(&second);
  EXPECT_EQ(stack.top(), &second);
  EXPECT_EQ(stack.Pop(), &second);
  EXPECT_EQ(stack.top(), &first);
  EXPECT_EQ(stack.Pop(), &first);
  EXPECT_EQ(stack.Pop(), nullptr);
}

}  // namespace
}  // namespace cuspan
