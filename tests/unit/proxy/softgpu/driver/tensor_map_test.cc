// Tests tensor maps from the driver's functions to kernels.
#include <gmock/gmock.h>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

// One thread copies a box of 8 × 4 words at (x, y) to `out` through shared memory.
constexpr char kLoad[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry load(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<4>;
  .shared .align 128 .b8 box[128];
  .shared .align 8 .b64 barrier;
  mov.b64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [out];
  ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];
  mov.u32 %r3, box; mov.u32 %r4, barrier;
  mbarrier.init.shared::cta.b64 [%r4], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 %d3, [%r4], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r3], [%d1, {%r1, %r2}], [%r4];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%r4], 0;
  @!%p bra WAIT;
  fence.proxy.async.shared::cta;
  cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r3], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";

class TensorMapTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_CUDA(cuModuleLoadData(&tensors_, kLoad));
    ASSERT_CUDA(cuModuleGetFunction(&load_, tensors_, "load"));
  }
  void TearDown() override {
    if (tensors_ != nullptr) {
      EXPECT_CUDA(cuModuleUnload(tensors_));
    }
    DriverTest::TearDown();
  }

  // Encodes a map of 64 × 32 words in rows of 256 bytes.
  static CUresult Encode(CUtensorMap* map, CUdeviceptr address, cuuint32_t width = 8,
                         CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                         CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE) {
    const cuuint64_t sizes[] = {64, 32}, strides[] = {256};
    const cuuint32_t box[] = {width, 4}, steps[] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2,
                                  reinterpret_cast<void*>(address), sizes, strides, box, steps,
                                  interleave, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  static std::vector<std::uint32_t> Words() {
    std::vector<std::uint32_t> words(64 * 32);
    for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = i;
    return words;
  }
  static std::vector<std::uint32_t> Box(std::uint32_t x, std::uint32_t y) {
    std::vector<std::uint32_t> box;
    for (std::uint32_t row = 0; row < 4; ++row)
      for (std::uint32_t i = 0; i < 8; ++i) box.push_back((y + row) * 64 + x + i);
    return box;
  }

  CUmodule tensors_ = nullptr;
  CUfunction load_ = nullptr;
};

TEST_F(TensorMapTest, KernelsLoadByThem) {
  const DeviceMemory tensor(kMiB), out(kMiB);
  tensor.Write(Words());
  CUtensorMap map{};
  ASSERT_CUDA(Encode(&map, tensor.address()));
  EXPECT_CUDA(Launch(load_, 1, 1, 0, nullptr, map, out.address(), 5U, 7U));
  EXPECT_EQ(out.Read<std::uint32_t>(32), Box(5, 7));
  // The same map with another address.
  const DeviceMemory other(kMiB);
  auto words = Words();
  for (auto& word : words) word += 10'000;
  other.Write(words);
  EXPECT_CUDA(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(other.address())));
  EXPECT_CUDA(Launch(load_, 1, 1, 0, nullptr, map, out.address(), 5U, 7U));
  EXPECT_EQ(out.Read<std::uint32_t>(1)[0], 10'000 + 7 * 64 + 5U);
}

TEST_F(TensorMapTest, RefusesWhatCopiesCannotDo) {
  CUtensorMap map{};
  EXPECT_EQ(Encode(nullptr, 0x10000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Encode(&map, 0x10008), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Encode(&map, 0x10000, 7), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Encode(&map, 0x10000, 260), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Encode(&map, 0x10000, 16, CU_TENSOR_MAP_SWIZZLE_32B), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Encode(&map, 0x10000, 8, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Encode(&map, 0x10000, 8, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_INTERLEAVE_16B),
            CUDA_ERROR_NOT_SUPPORTED);
  CUtensorMap none{};
  EXPECT_EQ(cuTensorMapReplaceAddress(&none, reinterpret_cast<void*>(0x10000)),
            CUDA_ERROR_INVALID_VALUE);
}

// Each case runs in its own process, since it loses the context.
TEST_F(TensorMapTest, KernelsFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceMemory out(kMiB);
  const auto run = [&](const CUtensorMap& map, CUresult error) {
    EXPECT_CUDA(Launch(load_, 1, 1, 0, nullptr, map, out.address(), 0U, 0U));
    EXPECT_EQ(cuCtxSynchronize(), error);
    std::exit(HasFailure() ? 1 : 0);
  };
  const CUtensorMap none{};
  EXPECT_EXIT(run(none, CUDA_ERROR_ILLEGAL_INSTRUCTION), testing::ExitedWithCode(0),
              "kernel load: .*the memory holds no tensor map");
  CUtensorMap nowhere{};
  EXPECT_CUDA(Encode(&nowhere, 0x10000));
  EXPECT_EXIT(run(nowhere, CUDA_ERROR_ILLEGAL_ADDRESS), testing::ExitedWithCode(0),
              "an address that is not mapped");
  setenv("CUSPAN_SOFT_CHECK", "memory", 1);
  EXPECT_EXIT(run(nowhere, CUDA_ERROR_ILLEGAL_ADDRESS), testing::ExitedWithCode(0),
              "a copy by a tensor map: 16 bytes read at 0x10000");
  CUtensorMap good{};
  EXPECT_CUDA(Encode(&good, out.address()));
  const auto run_to = [&](CUdeviceptr address, CUresult error) {
    EXPECT_CUDA(Launch(load_, 1, 1, 0, nullptr, good, address, 0U, 0U));
    EXPECT_EQ(cuCtxSynchronize(), error);
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run_to(out.address() + 1024, CUDA_SUCCESS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_to(out.address() + out.bytes() - 64, CUDA_ERROR_ILLEGAL_ADDRESS),
              testing::ExitedWithCode(0), "cp.async.bulk.*128 bytes written at");
  unsetenv("CUSPAN_SOFT_CHECK");
}

TEST_F(TensorMapTest, EncodesPixels) {
  CUtensorMap map{};
  const cuuint64_t sizes[] = {16, 8, 8, 2}, strides[] = {64, 512, 4096};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  int lower[] = {-1, -1}, upper[] = {-1, -1};
  const auto encode = [&](cuuint32_t channels, cuuint32_t pixels) {
    return cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
                                   reinterpret_cast<void*>(0x10000), sizes, strides, lower, upper,
                                   channels, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(encode(16, 64), CUDA_SUCCESS);
  EXPECT_EQ(encode(16, 1025), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(15, 64), CUDA_ERROR_INVALID_VALUE);
  lower[0] = 8;
  EXPECT_EQ(encode(16, 64), CUDA_ERROR_INVALID_VALUE) << "the box is empty";
}

}  // namespace
}  // namespace cuspan::softgpu
