// Memory and arrays of devices.
#include <future>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// More than the fake GPU's limit for one allocation.
constexpr std::size_t kTooMuch = 100 << 20;

class MemoryTest : public LoopbackTest {
 protected:
  static cudaPointerAttributes AttributesOf(const void* pointer) {
    cudaPointerAttributes attributes{};
    EXPECT_CUDA(cudaPointerGetAttributes(&attributes, pointer));
    return attributes;
  }
};

TEST_F(MemoryTest, BlocksAreAlignedAndApart) {
  struct Block {
    std::uintptr_t start;
    std::size_t bytes;
  };
  std::vector<Block> blocks;
  for (const std::size_t bytes : {1UL, 255UL, 256UL, 257UL, 5000UL, 1UL << 20, 33UL << 20, 1UL}) {
    void* memory = nullptr;
    ASSERT_CUDA(cudaMalloc(&memory, bytes));
    blocks.push_back({reinterpret_cast<std::uintptr_t>(memory), bytes});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Block& a, const Block& b) { return a.start < b.start; });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].start % 256, 0U);
    if (i > 0) {
      EXPECT_LE(blocks[i - 1].start + blocks[i - 1].bytes, blocks[i].start);
    }
    EXPECT_CUDA(cudaFree(reinterpret_cast<void*>(blocks[i].start)));
  }
}

TEST_F(MemoryTest, NothingIsAllocatedAndFreed) {
  void* memory = &memory;
  EXPECT_CUDA(cudaMalloc(&memory, 0));
  EXPECT_EQ(memory, nullptr);
  EXPECT_CUDA(cudaFree(nullptr));
  EXPECT_CUDA_ERROR(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, WhatTheDeviceDoesNotHaveIsRefusedAndTheRestGoesOn) {
  void* memory = nullptr;
  EXPECT_CUDA_ERROR(cudaMalloc(&memory, kTooMuch), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_CUDA_ERROR(cudaMalloc(&memory, std::size_t{1} << 62), cudaErrorMemoryAllocation);
  gpu().Refuse("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CUDA_ERROR(cudaMalloc(&memory, 4096), cudaErrorMemoryAllocation);
  gpu().Refuse("cuMemCreate", CUDA_SUCCESS);
  EXPECT_CUDA_ERROR(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaMalloc(&memory, 4096));
  EXPECT_CUDA(cudaMemset(memory, 1, 4096));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaGetLastError());
}

TEST_F(MemoryTest, OnlyWhatWasAllocatedIsFreed) {
  std::uint32_t* const words = NewWords(64);
  std::uint32_t here = 0;
  EXPECT_CUDA_ERROR(cudaFree(words + 1), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaFree(&here), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(words));
  EXPECT_CUDA_ERROR(cudaFree(words), cudaErrorInvalidValue);
}

// Memory in use by pending work is not reused. cudaFree may wait for this work or not.
TEST_F(MemoryTest, FreedMemoryIsNotGivenOutBeforeTheDeviceIsDoneWithIt) {
  cudaStream_t held = NewStream();
  cudaStream_t other = NewStream();
  std::uint32_t* const freed = NewWords(1000);
  Hold(held);
  ASSERT_CUDA(Add(freed, 1000, 1, held));
  ASSERT_TRUE(WaitForWork(held, "add"));
  std::vector<std::uint32_t*> taken(20);
  auto freeing = std::async(std::launch::async, [&] {
    EXPECT_CUDA(cudaFree(freed));
    for (auto& words : taken) {
      EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&words), 4000));
      EXPECT_CUDA(cudaMemsetAsync(words, 0, 4000, other));
    }
    EXPECT_CUDA(cudaStreamSynchronize(other));
  });
  // A wait for the held stream submits a mark to it.
  const std::string waits = "write-value " + std::to_string(NumberOf(held));
  const auto count = [&] {
    const std::vector<std::string> log = gpu().Log();
    return std::count(log.begin(), log.end(), waits);
  };
  for (const auto before = count();
       freeing.wait_for(std::chrono::seconds(0)) != std::future_status::ready && count() == before;)
    std::this_thread::yield();
  Let(held);
  freeing.get();
  for (std::uint32_t* const words : taken)
    EXPECT_EQ(Read(words, 1000), std::vector<std::uint32_t>(1000));
}

// The program allocates more than the device's memory in total, but never at the same time.
TEST_F(MemoryTest, FreedMemoryComesBack) {
  for (int i = 0; i < 200; ++i) {
    void* memory = nullptr;
    const std::size_t bytes = i % 3 == 0 ? 48 << 20 : 20 << 20;
    ASSERT_CUDA(cudaMalloc(&memory, bytes)) << i;
    ASSERT_CUDA(Add(static_cast<std::uint32_t*>(memory), 16, 1, nullptr));
    ASSERT_CUDA(cudaFree(memory));
  }
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST_F(MemoryTest, PointersTellWhatTheyPointTo) {
  std::uint32_t* const words = NewWords(64);
  for (std::uint32_t* pointer : {words, words + 63}) {
    const cudaPointerAttributes device = AttributesOf(pointer);
    EXPECT_EQ(device.type, cudaMemoryTypeDevice);
    EXPECT_EQ(device.device, 0);
    EXPECT_EQ(device.devicePointer, pointer);
    EXPECT_EQ(device.hostPointer, nullptr);
  }
  ASSERT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(AttributesOf(NewWords(1)).device, 1);
  EXPECT_EQ(AttributesOf(words).device, 0);

  int here = 0;
  const cudaPointerAttributes host = AttributesOf(&here);
  EXPECT_EQ(host.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(host.devicePointer, nullptr);
  EXPECT_EQ(host.hostPointer, &here);
  EXPECT_CUDA_ERROR(cudaPointerGetAttributes(nullptr, words), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, FreedPointersPointToNothing) {
  std::uint32_t* const words = NewWords(64);
  ASSERT_CUDA(cudaFree(words));
  EXPECT_EQ(AttributesOf(words).type, cudaMemoryTypeUnregistered);
}

TEST_F(MemoryTest, WhatIsAllocatedIsNotFree) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  std::size_t total_after = 0;
  static_cast<void>(NewWords(1));
  ASSERT_CUDA(cudaMemGetInfo(&before, &total));
  EXPECT_GT(total, 0U);
  static_cast<void>(NewWords(1 << 20));
  ASSERT_CUDA(cudaMemGetInfo(&after, &total_after));
  EXPECT_EQ(before - after, std::size_t{4} << 20);
  EXPECT_EQ(total, total_after);
  gpu().Refuse("cuMemGetInfo", CUDA_ERROR_UNKNOWN);
  EXPECT_CUDA_ERROR(cudaMemGetInfo(&before, &total), cudaErrorUnknown);
}

TEST_F(MemoryTest, PitchesHoldTheirRows) {
  for (const std::size_t width : {1UL, 512UL, 513UL, 10'000UL}) {
    void* memory = nullptr;
    std::size_t pitch = 0;
    ASSERT_CUDA(cudaMallocPitch(&memory, &pitch, width, 7));
    EXPECT_GE(pitch, width);
    EXPECT_EQ(pitch % 32, 0U);
    EXPECT_CUDA(cudaMemset2D(memory, pitch, 1, width, 7));
    EXPECT_CUDA(cudaFree(memory));
  }
  void* memory = nullptr;
  std::size_t pitch = 0;
  EXPECT_CUDA_ERROR(cudaMallocPitch(&memory, &pitch, kTooMuch, 2), cudaErrorMemoryAllocation);
  EXPECT_CUDA_ERROR(cudaMallocPitch(&memory, &pitch, ~std::size_t{0}, 2),
                    cudaErrorMemoryAllocation);
  EXPECT_CUDA_ERROR(cudaMallocPitch(&memory, nullptr, 16, 2), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, BoxesKeepTheirExtent) {
  cudaPitchedPtr box{};
  ASSERT_CUDA(cudaMalloc3D(&box, (cudaExtent{100, 20, 3})));
  EXPECT_EQ(box.xsize, 100U);
  EXPECT_EQ(box.ysize, 20U);
  EXPECT_GE(box.pitch, 100U);
  EXPECT_CUDA(cudaMemset3D(box, 1, (cudaExtent{100, 20, 3})));
  EXPECT_CUDA(cudaFree(box.ptr));
}

TEST_F(MemoryTest, ArraysSayHowTheyWereMade) {
  const cudaChannelFormatDesc made =
      cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  ASSERT_CUDA(cudaMalloc3DArray(&array, &made, (cudaExtent{16, 8, 4}), cudaArraySurfaceLoadStore));
  cudaChannelFormatDesc desc{};
  cudaExtent extent{};
  unsigned flags = 0;
  EXPECT_CUDA(cudaArrayGetInfo(&desc, &extent, &flags, array));
  EXPECT_EQ(desc.x, 8);
  EXPECT_EQ(desc.w, 8);
  EXPECT_EQ(desc.f, cudaChannelFormatKindUnsigned);
  EXPECT_EQ(extent.width, 16U);
  EXPECT_EQ(extent.height, 8U);
  EXPECT_EQ(extent.depth, 4U);
  EXPECT_EQ(flags, unsigned{cudaArraySurfaceLoadStore});
  EXPECT_CUDA(cudaFreeArray(array));
  EXPECT_NE(cudaArrayGetInfo(&desc, &extent, &flags, array), cudaSuccess);
  EXPECT_NE(cudaFreeArray(array), cudaSuccess);
  EXPECT_CUDA(cudaFreeArray(nullptr));
}

TEST_F(MemoryTest, ArraysThatCanNotBeAreRefused) {
  const cudaChannelFormatDesc floats =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  const cudaChannelFormatDesc strange =
      cudaCreateChannelDesc(7, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t array = nullptr;
  EXPECT_CUDA_ERROR(cudaMallocArray(nullptr, &floats, 16, 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMallocArray(&array, nullptr, 16, 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMallocArray(&array, &floats, 0, 16, 0), cudaErrorInvalidValue);
  EXPECT_NE(cudaMallocArray(&array, &strange, 16, 16, 0), cudaSuccess);
  gpu().Refuse("cuArray3DCreate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CUDA_ERROR(cudaMallocArray(&array, &floats, 16, 16, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(array, nullptr);
}

TEST_F(MemoryTest, MipmapsHaveLevels) {
  const cudaChannelFormatDesc floats =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaMipmappedArray_t mipmap = nullptr;
  ASSERT_CUDA(cudaMallocMipmappedArray(&mipmap, &floats, (cudaExtent{16, 8, 0}), 3, 0));
  cudaArray_t level = nullptr;
  ASSERT_CUDA(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
  cudaExtent extent{};
  EXPECT_CUDA(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
  EXPECT_EQ(extent.width, 8U);
  EXPECT_EQ(extent.height, 4U);
  EXPECT_CUDA_ERROR(cudaGetMipmappedArrayLevel(&level, mipmap, 3), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeMipmappedArray(mipmap));
}

}  // namespace
}  // namespace cuspan
