#include "interpose/client/memory/memory_advice.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using Location = MemoryAdvice::Location;

constexpr Location kDevice1{CU_MEM_LOCATION_TYPE_DEVICE, 1};
constexpr Location kHost{CU_MEM_LOCATION_TYPE_HOST, 0};

TEST(MemoryAdvice, NothingIsSaidAtFirst) {
  const MemoryAdvice advice;
  EXPECT_EQ(advice.Common(4096, 4096), MemoryAdvice::Entry{});
}

TEST(MemoryAdvice, HoldsForItsRangeAlone) {
  MemoryAdvice advice;
  advice.Advise(1000, 1000, CU_MEM_ADVISE_SET_READ_MOSTLY, kHost);
  EXPECT_TRUE(advice.Common(1000, 1000).read_mostly);
  EXPECT_TRUE(advice.Common(1500, 1).read_mostly);
  EXPECT_FALSE(advice.Common(999, 2).read_mostly);
  EXPECT_FALSE(advice.Common(1999, 2).read_mostly);
  advice.Advise(1200, 100, CU_MEM_ADVISE_UNSET_READ_MOSTLY, kHost);
  EXPECT_FALSE(advice.Common(1000, 1000).read_mostly);
  EXPECT_TRUE(advice.Common(1000, 200).read_mostly);
  EXPECT_TRUE(advice.Common(1300, 700).read_mostly);
}

TEST(MemoryAdvice, PlacesMustAgree) {
  MemoryAdvice advice;
  advice.Advise(0, 100, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kDevice1);
  advice.Advise(100, 100, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kHost);
  advice.Prefetched(0, 200, kDevice1);
  EXPECT_EQ(advice.Common(0, 100).preferred, kDevice1);
  EXPECT_EQ(advice.Common(100, 100).preferred, kHost);
  EXPECT_EQ(advice.Common(0, 200).preferred, Location{});
  EXPECT_EQ(advice.Common(0, 200).prefetched, kDevice1);
  advice.Advise(0, 200, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, kHost);
  EXPECT_EQ(advice.Common(0, 100).preferred, Location{});
}

TEST(MemoryAdvice, AccessorsOfAPart) {
  MemoryAdvice advice;
  advice.Advise(0, 200, CU_MEM_ADVISE_SET_ACCESSED_BY, kDevice1);
  advice.Advise(0, 100, CU_MEM_ADVISE_SET_ACCESSED_BY, kHost);
  EXPECT_EQ(advice.Common(0, 100).accessed_by, (std::set<int>{CU_DEVICE_CPU, 1}));
  EXPECT_EQ(advice.Common(0, 200).accessed_by, (std::set<int>{1}));
  advice.Advise(50, 10, CU_MEM_ADVISE_UNSET_ACCESSED_BY, kDevice1);
  EXPECT_TRUE(advice.Common(0, 200).accessed_by.empty());
}

TEST(MemoryAdvice, GoesWithTheMemory) {
  MemoryAdvice advice;
  advice.Advise(100, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, kHost);
  advice.Advise(150, 100, CU_MEM_ADVISE_SET_ACCESSED_BY, kHost);
  advice.Forget(100, 100);
  EXPECT_EQ(advice.Common(100, 100), MemoryAdvice::Entry{});
  EXPECT_EQ(advice.Common(200, 50).accessed_by, (std::set<int>{CU_DEVICE_CPU}));
}

}  // namespace
}  // namespace cuspan
