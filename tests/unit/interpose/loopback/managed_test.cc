// Managed memory: writes of the program and its devices become visible to all when CUDA guarantees
// it.
#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// Several pages, blocks and slots of staging memory.
constexpr std::uint32_t kWords = 1 << 18;

class ManagedTest : public LoopbackTest {
 protected:
  // Returns zeroed memory.
  static std::uint32_t* NewManaged(std::size_t words) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMallocManaged(&memory, words * sizeof(std::uint32_t), cudaMemAttachGlobal));
    std::memset(memory, 0, words * sizeof(std::uint32_t));
    return static_cast<std::uint32_t*>(memory);
  }
  static void ExpectCounted(const std::uint32_t* words, std::uint32_t more) {
    for (std::uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(words[i], i + more) << i;
  }
};

TEST_F(ManagedTest, KernelsSeeWhatTheProgramWroteAndTheProgramWhatTheyWrote) {
  std::uint32_t* const words = NewManaged(kWords);
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  for (std::uint32_t round = 1; round <= 3; ++round) {
    ASSERT_CUDA(Add(words, kWords, 1000, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ExpectCounted(words, 1000 * round);
  }
  EXPECT_CUDA(cudaFree(words));
}

// The program accesses single words between launches. Every launch changes all words.
TEST_F(ManagedTest, PartsAreExchanged) {
  std::uint32_t* const words = NewManaged(kWords);
  std::vector<std::uint32_t> expected(kWords);
  for (std::uint32_t round = 0; round < 10; ++round) {
    for (std::uint32_t i = round * 7; i < kWords; i += 9001) {
      ASSERT_EQ(words[i], expected[i]) << i;
      words[i] = expected[i] = i;
    }
    ASSERT_CUDA(Add(words, kWords, 3, nullptr));
    for (std::uint32_t& word : expected) word += 3;
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), words));
  EXPECT_CUDA(cudaFree(words));
}

// Neighbours in one page, one written by the program and one by a kernel, alternately.
TEST_F(ManagedTest, NeighboursDoNotOverwriteEachOther) {
  std::uint32_t* const words = NewManaged(2);
  for (std::uint32_t round = 1; round <= 20; ++round) {
    words[0] = round;
    ASSERT_CUDA(Add(words + 1, 1, 1, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_EQ(words[0], round);
    ASSERT_EQ(words[1], round);
  }
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, StreamsAndEventsAreEnoughToWaitFor) {
  std::uint32_t* const words = NewManaged(kWords);
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  ASSERT_CUDA(Add(words, kWords, 1, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ExpectCounted(words, 1);
  ASSERT_CUDA(Add(words, kWords, 1, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaEventSynchronize(event));
  ExpectCounted(words, 2);
  ASSERT_CUDA(Add(words, kWords, 1, stream));
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
  }
  ExpectCounted(words, 3);
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, DevicesUseItInTurns) {
  std::uint32_t* const words = NewManaged(kWords);
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  for (int turn = 0; turn < 6; ++turn) {
    ASSERT_CUDA(cudaSetDevice(turn % kDevices));
    ASSERT_CUDA(Add(words, kWords, 1, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  ExpectCounted(words, 6);
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, DevicesAndTheProgramUseItInTurns) {
  std::uint32_t* const words = NewManaged(kWords);
  for (std::uint32_t turn = 0; turn < 6; ++turn) {
    ASSERT_CUDA(cudaSetDevice(static_cast<int>(turn % kDevices)));
    words[turn * 40'000] += 100;
    ASSERT_CUDA(Add(words, kWords, 1, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  for (std::uint32_t i = 0; i < kWords; ++i)
    ASSERT_EQ(words[i], i % 40'000 == 0 && i <= 200'000 ? 106U : 6U) << i;
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, ADeviceThatIsOpenedLaterHasItToo) {
  std::uint32_t* const words = NewManaged(kWords);
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  ASSERT_CUDA(Add(words, kWords, 1, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  ASSERT_CUDA(cudaSetDevice(1));
  ASSERT_CUDA(Add(words, kWords, 1, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  ExpectCounted(words, 2);
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, CopiesAndSetsUseItAsAnyMemory) {
  std::uint32_t* const words = NewManaged(kWords);
  std::uint32_t* const there = NewWords(kWords);
  const std::vector<std::uint32_t> counted = Count(kWords);
  ASSERT_CUDA(cudaMemcpy(words, counted.data(), 4 * kWords, cudaMemcpyHostToDevice));
  ASSERT_CUDA(Add(words, kWords, 1, nullptr));
  ASSERT_CUDA(cudaMemcpy(there, words, 4 * kWords, cudaMemcpyDeviceToDevice));
  ASSERT_CUDA(cudaMemset(words, 0, 4 * 100));
  ASSERT_CUDA(cudaDeviceSynchronize());
  for (std::uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(words[i], i < 100 ? 0 : i + 1) << i;
  ASSERT_CUDA(cudaMemcpy(words, there, 4 * kWords, cudaMemcpyDefault));
  ExpectCounted(words, 1);
  std::vector<std::uint32_t> here(kWords);
  ASSERT_CUDA(cudaMemcpy(here.data(), words, 4 * kWords, cudaMemcpyDeviceToHost));
  ExpectCounted(here.data(), 1);
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, TellsWhatItIs) {
  std::uint32_t* const words = NewManaged(64);
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words + 7));
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes.devicePointer, words + 7);
  EXPECT_EQ(attributes.hostPointer, words + 7);
  EXPECT_CUDA_ERROR(cudaFree(words + 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(words));
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_CUDA_ERROR(cudaFree(words), cudaErrorInvalidValue);
}

TEST_F(ManagedTest, WrongArgumentsAreRefused) {
  void* memory = nullptr;
  EXPECT_CUDA_ERROR(cudaMallocManaged(nullptr, 16, cudaMemAttachGlobal), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMallocManaged(&memory, 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMallocManaged(&memory, 16, cudaMemAttachSingle), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMallocManaged(&memory, 16, cudaMemAttachHost));
  EXPECT_CUDA(cudaFree(memory));
}

TEST_F(ManagedTest, AdviceIsRemembered) {
  std::uint32_t* const words = NewManaged(1024);
  const cudaMemLocation first{cudaMemLocationTypeDevice, 0};
  const cudaMemLocation host{cudaMemLocationTypeHost, 0};
  int value = -1;
  const auto attribute = [&](cudaMemRangeAttribute which) {
    EXPECT_CUDA(cudaMemRangeGetAttribute(&value, sizeof value, which, words, 4096));
    return value;
  };
  EXPECT_EQ(attribute(cudaMemRangeAttributeReadMostly), 0);
  EXPECT_EQ(attribute(cudaMemRangeAttributePreferredLocation), cudaInvalidDeviceId);
  ASSERT_CUDA(cudaMemAdvise(words, 4096, cudaMemAdviseSetReadMostly, first));
  ASSERT_CUDA(cudaMemAdvise(words, 4096, cudaMemAdviseSetPreferredLocation, host));
  ASSERT_CUDA(cudaMemAdvise(words, 4096, cudaMemAdviseSetAccessedBy, first));
  EXPECT_EQ(attribute(cudaMemRangeAttributeReadMostly), 1);
  EXPECT_EQ(attribute(cudaMemRangeAttributePreferredLocation), cudaCpuDeviceId);
  EXPECT_EQ(attribute(cudaMemRangeAttributeAccessedBy), 0);
  ASSERT_CUDA(cudaMemAdvise(words, 4096, cudaMemAdviseUnsetReadMostly, first));
  EXPECT_EQ(attribute(cudaMemRangeAttributeReadMostly), 0);
  ASSERT_CUDA(cudaMemPrefetchAsync(words, 4096, first, 0, nullptr));
  EXPECT_EQ(attribute(cudaMemRangeAttributeLastPrefetchLocation), 0);
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, PrefetchedMemoryHoldsTheSame) {
  std::uint32_t* const words = NewManaged(kWords);
  const cudaMemLocation host{cudaMemLocationTypeHost, 0};
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  for (int device = 0; device < kDevices; ++device) {
    ASSERT_CUDA(cudaSetDevice(device));
    const cudaMemLocation there{cudaMemLocationTypeDevice, device};
    ASSERT_CUDA(cudaMemPrefetchAsync(words, 4 * kWords, there, 0, nullptr));
    ASSERT_CUDA(Add(words, kWords, 1, nullptr));
    ASSERT_CUDA(cudaMemPrefetchAsync(words, 4 * kWords, host, 0, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  ExpectCounted(words, 2);
  EXPECT_CUDA(cudaFree(words));
}

TEST_F(ManagedTest, OnlyManagedMemoryIsPrefetchedAndAdvisedAbout) {
  std::uint32_t* const there = NewWords(1024);
  std::uint32_t* const words = NewManaged(1024);
  const cudaMemLocation first{cudaMemLocationTypeDevice, 0};
  const cudaMemLocation none{cudaMemLocationTypeDevice, 7};
  EXPECT_CUDA_ERROR(cudaMemPrefetchAsync(there, 64, first, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPrefetchAsync(words, 4097, first, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemPrefetchAsync(words, 64, none, 0, nullptr), cudaErrorInvalidDevice);
  EXPECT_CUDA_ERROR(cudaMemAdvise(there, 64, cudaMemAdviseSetReadMostly, first),
                    cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMemAdvise(words, 64, cudaMemAdviseSetAccessedBy, none),
                    cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(words));
}

// Launches do not wait, even if managed memory existed before.
TEST_F(ManagedTest, DevicesWorkByThemselvesAgainWhenItWasFreed) {
  std::uint32_t* const words = NewManaged(kWords);
  ASSERT_CUDA(Add(words, kWords, 1, nullptr));
  ASSERT_CUDA(cudaFree(words));
  cudaStream_t held = NewStream();
  Hold(held);
  ASSERT_CUDA(Launch("nothing", held));
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(Launch("nothing", nullptr));
  EXPECT_CUDA(cudaDeviceSynchronize());
}

// The program's copy survives the loss of a device. Bytes only on the device are lost.
TEST_F(ManagedTest, OutlivesItsDevices) {
  std::uint32_t* const words = NewManaged(kWords);
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  ASSERT_CUDA(Add(words, kWords, 1, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  ExpectCounted(words, 1);
  LoseProxy(0);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_CUDA(cudaSetDevice(1));
  ASSERT_CUDA(Add(words, kWords, 1, nullptr));
  ASSERT_CUDA(cudaDeviceSynchronize());
  ExpectCounted(words, 2);
  EXPECT_CUDA(cudaFree(words));
}

// Ranges prefetched and discarded together.
TEST_F(ManagedTest, BatchesOfRangesArePrefetched) {
  std::uint32_t* const words = NewManaged(kWords);
  cudaStream_t stream = NewStream();
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  void* ranges[] = {words, words + kWords / 2};
  std::size_t sizes[] = {kWords * 2, kWords * 2};
  cudaMemLocation places[] = {{cudaMemLocationTypeDevice, 0}, {cudaMemLocationTypeHost, 0}};
  std::size_t first[] = {0, 1};
  ASSERT_CUDA(cudaMemPrefetchBatchAsync(ranges, sizes, 2, places, first, 2, 0, stream));
  for (std::size_t i = 0; i < 2; ++i) {
    int last = -1;
    EXPECT_CUDA(cudaMemRangeGetAttribute(
        &last, sizeof last, cudaMemRangeAttributeLastPrefetchLocation, ranges[i], sizes[i]));
    EXPECT_EQ(last, i == 0 ? 0 : cudaCpuDeviceId);
  }
  ASSERT_CUDA(Add(words, kWords, 1, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ExpectCounted(words, 1);

  // Discarded ranges are writable again.
  ASSERT_CUDA(cudaMemDiscardBatchAsync(ranges, sizes, 2, 0, stream));
  ASSERT_CUDA(cudaMemDiscardAndPrefetchBatchAsync(ranges, sizes, 2, places, first, 1, 0, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  for (std::uint32_t i = 0; i < kWords; ++i) words[i] = i;
  ASSERT_CUDA(Add(words, kWords, 2, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ExpectCounted(words, 2);
  EXPECT_CUDA(cudaFree(words));
}

// Measured on an H100, driver 580.
TEST_F(ManagedTest, WhatMakesNoBatchOfRangesIsRefused) {
  std::uint32_t* const words = NewManaged(kWords);
  cudaStream_t stream = NewStream();
  std::uint32_t* const on_device = NewWords(4);
  struct Batch {
    void* ranges[2];
    std::size_t sizes[2];
    std::size_t count;
    cudaMemLocation place;
    std::size_t first[2];
    std::size_t groups;
    unsigned long long flags;
    cudaStream_t stream;
  };
  const auto refuses = [&](bool discards, auto&& change) {
    Batch b{{words, words + 8}, {32, 32}, 2, {cudaMemLocationTypeDevice, 0}, {0, 1}, 1, 0, stream};
    change(b);
    cudaMemLocation places[] = {b.place, b.place};
    for (const auto call : {cudaMemPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync}) {
      EXPECT_CUDA_ERROR(
          call(b.ranges, b.sizes, b.count, places, b.first, b.groups, b.flags, b.stream),
          cudaErrorInvalidValue);
    }
    if (discards) {
      EXPECT_CUDA_ERROR(cudaMemDiscardBatchAsync(b.ranges, b.sizes, b.count, b.flags, b.stream),
                        cudaErrorInvalidValue);
    }
  };
  refuses(true, [](Batch& b) { b.count = 0; });
  refuses(true, [](Batch& b) { b.flags = 1; });
  refuses(true, [](Batch& b) { b.stream = nullptr; });
  refuses(true, [](Batch& b) { b.stream = cudaStreamLegacy; });
  refuses(true, [](Batch& b) { b.sizes[1] = 0; });
  refuses(true, [](Batch& b) { b.sizes[1] = kWords * 4; });
  refuses(true, [](Batch& b) { b.ranges[1] = nullptr; });
  refuses(true, [&](Batch& b) { b.ranges[1] = on_device; });
  refuses(false, [](Batch& b) { b.groups = 0; });
  refuses(false, [](Batch& b) { b.count = 1, b.groups = 2; });
  refuses(false, [](Batch& b) { b.first[0] = 1; });
  refuses(false, [](Batch& b) { b.place.id = 9; });
  refuses(false, [](Batch& b) { b.place.type = cudaMemLocationTypeInvalid; });
  EXPECT_CUDA(cudaFree(words));
}

}  // namespace
}  // namespace cuspan
