// Page-locked memory, with the results of CUDA 13.0 on an H200.
#include "interpose/client/memory/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <vector>

namespace cuspan {
namespace {

TEST(HostMemory, AllocatesAndFrees) {
  HostMemory memory;
  void* block = nullptr;
  ASSERT_EQ(memory.Allocate(100000, 1, 2, &block), CUDA_SUCCESS);
  std::memset(block, 1, 100000);
  const auto range = memory.Find(static_cast<std::byte*>(block) + 99999, 1);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->base, block);
  EXPECT_EQ(range->bytes, 100000U);
  EXPECT_EQ(range->flags, 1U);
  EXPECT_EQ(range->device, 2);
  EXPECT_TRUE(range->allocated);
  EXPECT_EQ(memory.Free(static_cast<std::byte*>(block) + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Free(block), CUDA_SUCCESS);
  EXPECT_EQ(memory.Free(block), CUDA_ERROR_INVALID_VALUE);
}

TEST(HostMemory, SaysWhenThereIsNoRoom) {
  HostMemory memory;
  void* block = nullptr;
  EXPECT_EQ(memory.Allocate(std::size_t{1} << 60, 0, 0, &block), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(HostMemory, FindsOnlyWhatLiesInsideOneRange) {
  HostMemory memory;
  std::vector<char> bytes(1000);
  ASSERT_EQ(memory.Register(bytes.data() + 100, 800, 0, 0), CUDA_SUCCESS);
  EXPECT_TRUE(memory.Find(bytes.data() + 100, 800).has_value());
  EXPECT_FALSE(memory.Find(bytes.data() + 100, 801).has_value());
  EXPECT_FALSE(memory.Find(bytes.data() + 99, 10).has_value());
  EXPECT_FALSE(memory.Find(bytes.data() + 900, 1).has_value());
  EXPECT_FALSE(memory.Find(nullptr, 1).has_value());
  EXPECT_FALSE(
      memory.Find(bytes.data() + 100, std::numeric_limits<std::size_t>::max()).has_value());
}

TEST(HostMemory, RefusesToRegisterTwice) {
  HostMemory memory;
  std::vector<char> bytes(10000);
  ASSERT_EQ(memory.Register(bytes.data(), 5000, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(bytes.data(), 5000, 0, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(memory.Register(bytes.data() + 100, 10, 0, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(memory.Register(bytes.data() + 4999, 10, 0, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(memory.Register(bytes.data() + 5000, 10, 0, 0), CUDA_SUCCESS);
}

TEST(HostMemory, TellsTheWaysThatUnregisteringFails) {
  HostMemory memory;
  std::vector<char> bytes(100);
  ASSERT_EQ(memory.Register(bytes.data(), 100, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Unregister(bytes.data() + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Unregister(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Unregister(bytes.data()), CUDA_SUCCESS);
  EXPECT_EQ(memory.Unregister(bytes.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST(HostMemory, KeepsAllocatedAndRegisteredApart) {
  HostMemory memory;
  std::vector<char> bytes(100);
  void* block = nullptr;
  ASSERT_EQ(memory.Allocate(100, 0, 0, &block), CUDA_SUCCESS);
  ASSERT_EQ(memory.Register(bytes.data(), 100, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Unregister(block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Register(block, 100, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Free(bytes.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Free(block), CUDA_SUCCESS);
}

TEST(HostMemory, RefusesMemoryThatIsNotThere) {
  HostMemory memory;
  constexpr std::size_t kPage = 4096;
  auto* const pages = static_cast<char*>(
      mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(pages + kPage, kPage), 0);
  EXPECT_EQ(memory.Register(pages, kPage, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(pages + 2 * kPage, kPage, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Unregister(pages), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(pages, kPage + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Register(pages + kPage, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Register(pages, std::numeric_limits<std::size_t>::max(), 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.Register(nullptr, 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
  munmap(pages, kPage);
  munmap(pages + 2 * kPage, kPage);
}

}  // namespace
}  // namespace cuspan
