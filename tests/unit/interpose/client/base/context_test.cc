// A thread's current contexts.
#include "interpose/client/base/context.h"

#include <gtest/gtest.h>

#include <memory>

namespace cuspan {
namespace {

TEST(ContextStack, IsEmptyAtFirst) {
  ContextStack stack;
  EXPECT_EQ(stack.top(), nullptr);
  EXPECT_EQ(stack.Pop(), nullptr);
}

TEST(ContextStack, SetReplacesTheTop) {
  const auto first = std::make_shared<Context>(Context::Kind::kPrimary, 1, 0);
  const auto second = std::make_shared<Context>(Context::Kind::kPrimary, 2, 1);
  ContextStack stack;
  stack.Set(first.get());
  EXPECT_EQ(stack.top(), first.get());
  stack.Set(second.get());
  EXPECT_EQ(stack.Pop(), second);
  EXPECT_EQ(stack.top(), nullptr);
}

TEST(ContextStack, PopsInTheOppositeOrder) {
  const auto first = std::make_shared<Context>(Context::Kind::kPrimary, 1, 0);
  const auto second = std::make_shared<Context>(Context::Kind::kPrimary, 2, 0);
  ContextStack stack;
  stack.Push(first.get());
  stack.Push(second.get());
  EXPECT_EQ(stack.top(), second.get());
  EXPECT_EQ(stack.Pop(), second);
  EXPECT_EQ(stack.top(), first.get());
  EXPECT_EQ(stack.Pop(), first);
  EXPECT_EQ(stack.Pop(), nullptr);
}

// A destroyed context stays in the threads' stacks.
TEST(ContextStack, KeepsWhatItHolds) {
  auto context = std::make_shared<Context>(Context::Kind::kCreated, 1, 0);
  const std::weak_ptr<Context> known = context;
  ContextStack stack;
  stack.Push(context.get());
  context.reset();
  EXPECT_FALSE(known.expired());
  stack.Pop();
  EXPECT_TRUE(known.expired());
}

}  // namespace
}  // namespace cuspan
