#include "store/engine/memory_budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace cuspan::store {
namespace {

TEST(MemoryBudgetTest, SharesComeBack) {
  MemoryBudget budget(100);
  MemoryBudget::Share first = budget.Take(60);
  EXPECT_TRUE(first.valid());
  EXPECT_FALSE(budget.Take(41).valid());
  EXPECT_FALSE(budget.Take(std::numeric_limits<std::uint64_t>::max()).valid());
  {
    const MemoryBudget::Share second = budget.Take(40);
    EXPECT_TRUE(second.valid());
    EXPECT_FALSE(budget.Take(1).valid());
  }
  EXPECT_TRUE(budget.Take(40).valid());
  MemoryBudget::Share moved = std::move(first);
  EXPECT_FALSE(budget.Take(41).valid());
  moved = MemoryBudget::Share();
  EXPECT_TRUE(budget.Take(100).valid());
}

TEST(MemoryBudgetTest, Nothing) {
  MemoryBudget budget(0);
  EXPECT_FALSE(budget.Take(1).valid());
  EXPECT_TRUE(budget.Take(0).valid());
}

}  // namespace
}  // namespace cuspan::store
