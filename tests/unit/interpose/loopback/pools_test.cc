// Stream-ordered memory, and its pools.
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class PoolsTest : public LoopbackTest {
 protected:
  static cudaMemPool_t NewPool(std::size_t most = 0, int device = 0) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    properties.maxSize = most;
    cudaMemPool_t pool = nullptr;
    EXPECT_CUDA(cudaMemPoolCreate(&pool, &properties));
    return pool;
  }
  static std::uint32_t* Take(cudaMemPool_t pool, std::size_t words, cudaStream_t stream) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMallocFromPoolAsync(&memory, words * sizeof(std::uint32_t), pool, stream));
    return static_cast<std::uint32_t*>(memory);
  }
  static std::uint64_t Get(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
    std::uint64_t value = ~0ULL;
    EXPECT_CUDA(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
  }
};

TEST_F(PoolsTest, MemoryIsThereInTheOrderOfItsStream) {
  cudaStream_t stream = NewStream();
  std::uint32_t* words = nullptr;
  ASSERT_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&words), 4000, stream));
  ASSERT_CUDA(cudaMemsetAsync(words, 0, 4000, stream));
  ASSERT_CUDA(Add(words, 1000, 3, stream));
  std::vector<std::uint32_t> here(1000);
  ASSERT_CUDA(cudaMemcpyAsync(here.data(), words, 4000, cudaMemcpyDeviceToHost, stream));
  ASSERT_CUDA(cudaFreeAsync(words, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(here, std::vector<std::uint32_t>(1000, 3));
  EXPECT_CUDA_ERROR(cudaMemset(words, 0, 4), cudaErrorInvalidValue);
}

TEST_F(PoolsTest, FreedMemoryIsNoOthersBeforeItsStreamHasComeSoFar) {
  cudaStream_t held = NewStream();
  cudaStream_t other = NewStream();
  cudaMemPool_t pool = NewPool();
  std::uint32_t* const freed = Take(pool, 1000, held);
  Hold(held);
  ASSERT_CUDA(Add(freed, 1000, 1, held));
  ASSERT_CUDA(cudaFreeAsync(freed, held));
  ASSERT_TRUE(WaitForWork(held, "add"));
  std::vector<std::uint32_t*> taken;
  for (int i = 0; i < 20; ++i) {
    taken.push_back(Take(pool, 1000, other));
    ASSERT_CUDA(cudaMemsetAsync(taken.back(), 0, 4000, other));
  }
  ASSERT_CUDA(cudaStreamSynchronize(other));
  Let(held);
  for (std::uint32_t* const words : taken)
    EXPECT_EQ(Read(words, 1000), std::vector<std::uint32_t>(1000));
}

TEST_F(PoolsTest, MemoryIsFreedInWhateverStream) {
  cudaStream_t first = NewStream();
  cudaStream_t second = NewStream();
  cudaEvent_t event = NewEvent();
  std::uint32_t* const words = Take(NewPool(), 100, first);
  ASSERT_CUDA(cudaMemsetAsync(words, 0, 400, first));
  ASSERT_CUDA(cudaEventRecord(event, first));
  ASSERT_CUDA(cudaStreamWaitEvent(second, event, 0));
  ASSERT_CUDA(Add(words, 100, 1, second));
  EXPECT_CUDA(cudaFreeAsync(words, second));
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST_F(PoolsTest, FreeWithoutAStreamFreesItToo) {
  cudaMemPool_t pool = NewPool();
  std::uint32_t* const words = Take(pool, 100, nullptr);
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaFree(words));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemCurrent), 0U);
  EXPECT_CUDA_ERROR(cudaFree(words), cudaErrorInvalidValue);
}

TEST_F(PoolsTest, OnlyWhatWasTakenIsFreed) {
  std::uint32_t* const words = Take(NewPool(), 100, nullptr);
  int here = 0;
  EXPECT_CUDA_ERROR(cudaFreeAsync(words + 1, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaFreeAsync(&here, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeAsync(nullptr, nullptr));
  EXPECT_CUDA(cudaFreeAsync(words, nullptr));
  EXPECT_CUDA_ERROR(cudaFreeAsync(words, nullptr), cudaErrorInvalidValue);
}

TEST_F(PoolsTest, CountWhatIsInUse) {
  cudaMemPool_t pool = NewPool();
  cudaStream_t stream = NewStream();
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemCurrent), 0U);
  std::uint32_t* const first = Take(pool, 1 << 18, stream);
  std::uint32_t* const second = Take(pool, 1 << 19, stream);
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemCurrent), 3U << 20);
  EXPECT_GE(Get(pool, cudaMemPoolAttrReservedMemCurrent), 3U << 20);
  ASSERT_CUDA(cudaFreeAsync(second, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemCurrent), 1U << 20);
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemHigh), 3U << 20);
  EXPECT_GE(Get(pool, cudaMemPoolAttrReservedMemHigh), 3U << 20);
  std::uint64_t none = 0;
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &none));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemHigh), 1U << 20);
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &none));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrReservedMemHigh),
            Get(pool, cudaMemPoolAttrReservedMemCurrent));
  EXPECT_CUDA(cudaFreeAsync(first, stream));
}

TEST_F(PoolsTest, KeepMemoryUpToTheirThreshold) {
  cudaMemPool_t pool = NewPool();
  // Memory is kept in units of 32 MiB.
  for (const auto& [threshold, kept] : {std::pair<std::uint64_t, std::uint64_t>{0, 0},
                                        {~0ULL, 32U << 20},
                                        {1U << 20, 0},
                                        {40U << 20, 32U << 20}}) {
    std::uint64_t value = threshold;
    ASSERT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    std::uint32_t* const words = Take(pool, 1 << 18, nullptr);
    EXPECT_EQ(Get(pool, cudaMemPoolAttrReservedMemCurrent), 32U << 20);
    ASSERT_CUDA(cudaFreeAsync(words, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(Get(pool, cudaMemPoolAttrReservedMemCurrent), kept) << threshold;
  }
  for (const auto& [keep, kept] :
       {std::pair<std::size_t, std::uint64_t>{40 << 20, 32U << 20}, {1, 32U << 20}, {0, 0}}) {
    EXPECT_CUDA(cudaMemPoolTrimTo(pool, keep));
    EXPECT_EQ(Get(pool, cudaMemPoolAttrReservedMemCurrent), kept) << keep;
  }
}

TEST_F(PoolsTest, MemoryOfNoPoolIsFreedInOrder) {
  void* memory = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, 400));
  auto* const words = static_cast<std::uint32_t*>(memory);
  ASSERT_CUDA(cudaMemsetAsync(words, 0, 400, nullptr));
  EXPECT_CUDA_ERROR(cudaFreeAsync(words + 1, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeAsync(words, nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
  void* pinned = nullptr;
  ASSERT_CUDA(cudaMallocHost(&pinned, 400));
  EXPECT_CUDA_ERROR(cudaFreeAsync(pinned, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(PoolsTest, AttributesAreKept) {
  cudaMemPool_t pool = NewPool();
  std::uint64_t threshold = 12345;
  EXPECT_EQ(Get(pool, cudaMemPoolAttrReleaseThreshold), 0U);
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrReleaseThreshold), 12345U);
  for (const cudaMemPoolAttr reuse :
       {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
        cudaMemPoolReuseAllowInternalDependencies}) {
    int on = -1;
    EXPECT_CUDA(cudaMemPoolGetAttribute(pool, reuse, &on));
    EXPECT_EQ(on, 1);
    on = 0;
    EXPECT_CUDA(cudaMemPoolSetAttribute(pool, reuse, &on));
    on = -1;
    EXPECT_CUDA(cudaMemPoolGetAttribute(pool, reuse, &on));
    EXPECT_EQ(on, 0);
  }
  std::uint64_t one = 1;
  EXPECT_CUDA_ERROR(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &one),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, nullptr),
                    cudaErrorInvalidValue);
}

TEST_F(PoolsTest, GiveNoMoreThanTheirLimit) {
  constexpr std::size_t kMost = 1 << 20;
  cudaMemPool_t pool = NewPool(kMost);
  void* memory = nullptr;
  EXPECT_CUDA_ERROR(cudaMallocFromPoolAsync(&memory, 64 << 20, pool, nullptr),
                    cudaErrorMemoryAllocation);
  std::uint32_t* const words = Take(pool, kMost / 8, nullptr);
  EXPECT_CUDA(cudaFreeAsync(words, nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
  std::uint32_t* const again = Take(pool, kMost / 8, nullptr);
  EXPECT_CUDA(cudaFreeAsync(again, nullptr));
}

TEST_F(PoolsTest, GiveNoMoreThanTheDeviceHas) {
  void* memory = nullptr;
  EXPECT_CUDA_ERROR(cudaMallocAsync(&memory, 100 << 20, nullptr), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaMallocAsync(&memory, 1 << 20, nullptr));
  EXPECT_CUDA(cudaFreeAsync(memory, nullptr));
}

TEST_F(PoolsTest, TrimmedHoldWhatIsInUse) {
  cudaMemPool_t pool = NewPool();
  std::uint64_t all = ~0ULL;
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  std::uint32_t* const kept = Take(pool, 1 << 18, nullptr);
  std::uint32_t* const freed = Take(pool, 1 << 18, nullptr);
  ASSERT_CUDA(cudaMemsetAsync(kept, 1, 1 << 20, nullptr));
  ASSERT_CUDA(cudaFreeAsync(freed, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemCurrent), 1U << 20);
  EXPECT_GE(Get(pool, cudaMemPoolAttrReservedMemCurrent), 1U << 20);
  EXPECT_EQ(Read(kept, 1).front(), 0x01010101U);
  ASSERT_CUDA(cudaFreeAsync(kept, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrReservedMemCurrent), 0U);
}

TEST_F(PoolsTest, DevicesTakeFromTheirCurrentPool) {
  cudaMemPool_t pool = NewPool();
  cudaMemPool_t usual = nullptr;
  cudaMemPool_t current = nullptr;
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&usual, 0));
  ASSERT_CUDA(cudaDeviceGetMemPool(&current, 0));
  EXPECT_EQ(current, usual);
  ASSERT_CUDA(cudaDeviceSetMemPool(0, pool));
  ASSERT_CUDA(cudaDeviceGetMemPool(&current, 0));
  EXPECT_EQ(current, pool);
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&memory, 1 << 20, nullptr));
  EXPECT_EQ(Get(pool, cudaMemPoolAttrUsedMemCurrent), 1U << 20);
  EXPECT_CUDA(cudaFreeAsync(memory, nullptr));
  // After its end, the default pool is current again.
  ASSERT_CUDA(cudaMemPoolDestroy(pool));
  ASSERT_CUDA(cudaDeviceGetMemPool(&current, 0));
  EXPECT_EQ(current, usual);
  EXPECT_CUDA_ERROR(cudaMemPoolDestroy(usual), cudaErrorInvalidValue);
}

TEST_F(PoolsTest, AreOfOneDevice) {
  cudaMemPool_t pool = NewPool(0, 1);
  EXPECT_NE(cudaDeviceSetMemPool(0, pool), cudaSuccess);
  std::uint32_t* const words = Take(pool, 100, nullptr);
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words));
  EXPECT_EQ(attributes.device, 1);
  EXPECT_CUDA(cudaFreeAsync(words, nullptr));
}

TEST_F(PoolsTest, MemoryOfADestroyedPoolStaysUntilItIsFreed) {
  cudaMemPool_t pool = NewPool();
  std::uint32_t* const words = Take(pool, 100, nullptr);
  ASSERT_CUDA(cudaMemPoolDestroy(pool));
  ASSERT_CUDA(cudaMemsetAsync(words, 0, 400, nullptr));
  ASSERT_CUDA(Add(words, 100, 1, nullptr));
  EXPECT_EQ(Read(words, 100), std::vector<std::uint32_t>(100, 1));
  EXPECT_CUDA(cudaFreeAsync(words, nullptr));
}

TEST_F(PoolsTest, HandlesThatAreNoneAreRefused) {
  cudaMemPool_t pool = NewPool();
  ASSERT_CUDA(cudaMemPoolDestroy(pool));
  void* memory = nullptr;
  std::uint64_t value = 0;
  EXPECT_CUDA_ERROR(cudaMallocFromPoolAsync(&memory, 16, pool, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPoolTrimTo(pool, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaDeviceSetMemPool(0, pool), cudaErrorInvalidValue);
  cudaMemPoolProps properties{};
  EXPECT_CUDA_ERROR(cudaMemPoolCreate(&pool, &properties), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMallocAsync(nullptr, 16, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace cuspan
