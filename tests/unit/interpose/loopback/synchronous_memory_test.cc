// Memory with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: synchronous operations on it wait for the device.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class SynchronousMemoryTest : public LoopbackTest {
 protected:
  SynchronousMemoryTest() { EXPECT_EQ(cuInit(0), CUDA_SUCCESS); }

  static CUresult Set(const void* memory, unsigned synchronous) {
    return cuPointerSetAttribute(&synchronous, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                 reinterpret_cast<CUdeviceptr>(memory));
  }
  static bool Get(const void* memory) {
    bool synchronous = false;
    EXPECT_EQ(cuPointerGetAttribute(&synchronous, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                    reinterpret_cast<CUdeviceptr>(memory)),
              CUDA_SUCCESS);
    return synchronous;
  }
  // True if `call`, a memset, returns while the legacy stream is held.
  template <typename Call>
  bool ReturnsWhileHeld(Call&& call) {
    Hold(nullptr);
    const std::vector<std::string> before = gpu().Log();
    const auto await_another = [&](const char* work) {
      const std::string entry = work + (" " + std::to_string(NumberOf(nullptr)));
      const auto count = std::count(before.begin(), before.end(), entry);
      return gpu().WaitForLog(entry, static_cast<std::size_t>(count) + 1);
    };
    std::atomic<bool> returned = false;
    std::thread caller([&] {
      call();
      returned = true;
    });
    EXPECT_TRUE(await_another("set"));
    EXPECT_TRUE(await_another("asked"));
    const bool early = returned;
    Let(nullptr);
    caller.join();
    return early;
  }
};

TEST_F(SynchronousMemoryTest, ItIsOfAllocations) {
  std::uint32_t* const words = NewWords(100);
  std::uint32_t* const others = NewWords(100);
  EXPECT_FALSE(Get(words));
  EXPECT_EQ(Set(words + 50, 1), CUDA_SUCCESS);
  EXPECT_TRUE(Get(words));
  EXPECT_FALSE(Get(others));
  EXPECT_EQ(Set(words, 0), CUDA_SUCCESS);
  EXPECT_FALSE(Get(words));
  // The attribute ends with its allocation.
  EXPECT_EQ(Set(words, 1), CUDA_SUCCESS);
  EXPECT_CUDA(cudaFree(words));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_FALSE(Get(NewWords(100)));
}

TEST_F(SynchronousMemoryTest, ASetWaitsForTheDevice) {
  std::uint32_t* const words = NewWords(100);
  ASSERT_EQ(Set(words, 1), CUDA_SUCCESS);
  EXPECT_FALSE(ReturnsWhileHeld([&] { EXPECT_CUDA(cudaMemset(words, 1, 400)); }));
}

TEST_F(SynchronousMemoryTest, WrongOnesAreRefused) {
  std::uint32_t* const words = NewWords(1);
  const unsigned one = 1;
  unsigned here = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(words);
  EXPECT_EQ(Set(&here, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Set(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace cuspan
