// Tensor maps: arguments refused by the client, maps made by the device's driver, and the number of
// requests to it.
#include <algorithm>
#include <cstdlib>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

// Valid arguments of a two-dimensional tensor.
struct Tiled {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  cuuint32_t rank = 2;
  void* address = reinterpret_cast<void*>(0x10000);
  cuuint64_t sizes[5] = {64, 48, 4, 4, 4};
  cuuint64_t strides[4] = {256, 12288, 49152, 196608};
  cuuint32_t box[5] = {32, 8, 1, 1, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  CUresult Encode(CUtensorMap* map) const {
    return cuTensorMapEncodeTiled(map, type, rank, address, sizes, strides, box, steps, interleave,
                                  swizzle, promotion, fill);
  }
};

struct Im2col : Tiled {
  Im2col() {
    type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    rank = 4;
  }
  int lower[3] = {-1, -1, 0};
  int upper[3] = {-1, -1, 0};
  cuuint32_t channels = 64;
  cuuint32_t pixels = 128;

  CUresult Encode(CUtensorMap* map) const {
    return cuTensorMapEncodeIm2col(map, type, rank, address, sizes, strides, lower, upper, channels,
                                   pixels, steps, interleave, swizzle, promotion, fill);
  }
  CUresult EncodeWide(CUtensorMap* map) const {
    return cuTensorMapEncodeIm2colWide(map, type, rank, address, sizes, strides, lower[0], upper[0],
                                       channels, pixels, steps, interleave,
                                       CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, swizzle, promotion, fill);
  }
};

class TensorMapsTest : public LoopbackTest {
 protected:
  TensorMapsTest() { EXPECT_CUDA(cudaFree(nullptr)); }

  std::ptrdiff_t Asked() {
    const auto log = gpu().Log();
    return std::count(log.begin(), log.end(), "tensor map");
  }
  // Returns the error code for arguments made invalid by change(arguments).
  template <typename Arguments = Tiled, typename Change>
  static CUresult With(Change&& change) {
    Arguments arguments;
    change(arguments);
    CUtensorMap map{};
    return arguments.Encode(&map);
  }
};

// Kernels find the memory by the map alone. Its size ensures separate pieces from other memory.
TEST_F(TensorMapsTest, PinnedMemoryBecomesTheDevices) {
  for (const bool replaced : {false, true}) {
    void* memory = nullptr;
    ASSERT_CUDA(cudaMallocHost(&memory, 64 << 20));
    std::shared_ptr<ContextConnection> connection;
    ASSERT_EQ(session().devices().OpenCurrent(&connection), CUDA_SUCCESS);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    EXPECT_FALSE(session().region().Reaches(*connection, address));
    Tiled arguments;
    CUtensorMap map{};
    if (!replaced) arguments.address = memory;
    ASSERT_EQ(arguments.Encode(&map), CUDA_SUCCESS);
    if (replaced) {
      EXPECT_EQ(cuTensorMapReplaceAddress(&map, memory), CUDA_SUCCESS);
    }
    EXPECT_TRUE(session().region().Reaches(*connection, address));
    EXPECT_CUDA(cudaFreeHost(memory));
  }
}

TEST_F(TensorMapsTest, TheDriverIsAskedOnce) {
  CUtensorMap first{}, second{};
  const Tiled arguments;
  ASSERT_EQ(arguments.Encode(&first), CUDA_SUCCESS);
  EXPECT_EQ(first.opaque[0], 0x10000U);
  EXPECT_EQ(first.opaque[2], 2U);
  EXPECT_EQ(first.opaque[3], 48U);
  EXPECT_EQ(first.opaque[4], 8U);
  ASSERT_EQ(arguments.Encode(&second), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);
  EXPECT_EQ(Asked(), 1);
  Tiled other;
  other.address = reinterpret_cast<void*>(0x20000);
  ASSERT_EQ(other.Encode(&second), CUDA_SUCCESS);
  EXPECT_EQ(second.opaque[0], 0x20000U);
  EXPECT_EQ(Asked(), 2);
  // Another device may need another format.
  ASSERT_CUDA(cudaSetDevice(1));
  ASSERT_CUDA(cudaFree(nullptr));
  ASSERT_EQ(arguments.Encode(&second), CUDA_SUCCESS);
  EXPECT_EQ(Asked(), 3);
  ASSERT_CUDA(cudaSetDevice(0));
}

TEST_F(TensorMapsTest, WhatTheDriverRefusedIsAskedAgain) {
  CUtensorMap map{};
  gpu().Refuse("cuTensorMapEncodeTiled", CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Tiled().Encode(&map), CUDA_ERROR_NOT_SUPPORTED);
  gpu().Refuse("cuTensorMapEncodeTiled", CUDA_SUCCESS);
  EXPECT_EQ(Tiled().Encode(&map), CUDA_SUCCESS);
}

TEST_F(TensorMapsTest, ReplacesTheAddress) {
  CUtensorMap map{};
  ASSERT_EQ(Tiled().Encode(&map), CUDA_SUCCESS);
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(0x30000)), CUDA_SUCCESS);
  EXPECT_EQ(map.opaque[0], 0x30000U);
  EXPECT_EQ(map.opaque[3], 48U);
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(0x30008)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuTensorMapReplaceAddress(nullptr, reinterpret_cast<void*>(0x30000)),
            CUDA_ERROR_INVALID_VALUE);
}

// Kernels use another address of registered memory than the program.
TEST_F(TensorMapsTest, HoldsTheAddressThatTheDeviceSees) {
  constexpr std::size_t kBytes = 64 << 10;
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, kBytes), &std::free);
  ASSERT_CUDA(cudaHostRegister(memory.get(), kBytes, cudaHostRegisterMapped));
  void* there = nullptr;
  ASSERT_CUDA(cudaHostGetDevicePointer(&there, memory.get(), 0));
  CUtensorMap map{};
  Tiled arguments;
  for (void* const address : {there, memory.get()}) {
    arguments.address = address;
    ASSERT_EQ(arguments.Encode(&map), CUDA_SUCCESS);
    EXPECT_EQ(map.opaque[0], reinterpret_cast<std::uintptr_t>(there));
  }
  EXPECT_CUDA(cudaHostUnregister(memory.get()));
}

TEST_F(TensorMapsTest, RefusesWhatNoMapCanBe) {
  alignas(128) std::byte room[256];
  EXPECT_EQ(Tiled().Encode(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Tiled().Encode(reinterpret_cast<CUtensorMap*>(room + 32)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Tiled().Encode(reinterpret_cast<CUtensorMap*>(room + 64)), CUDA_SUCCESS);
  const Tiled t;
  CUtensorMap map{};
  const auto encode = [&](const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                          const cuuint32_t* steps) {
    return cuTensorMapEncodeTiled(&map, t.type, t.rank, t.address, sizes, strides, box, steps,
                                  t.interleave, t.swizzle, t.promotion, t.fill);
  };
  EXPECT_EQ(encode(nullptr, t.strides, t.box, t.steps), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(t.sizes, nullptr, t.box, t.steps), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(t.sizes, t.strides, nullptr, t.steps), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(t.sizes, t.strides, t.box, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapsTest, RefusesWhatCudaRulesOut) {
  const CUresult refused = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(With([](Tiled& t) { t.rank = 0; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.rank = 6; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.rank = 5; }), CUDA_SUCCESS);
  EXPECT_EQ(With([](Tiled& t) { t.type = static_cast<CUtensorMapDataType>(16); }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.interleave = static_cast<CUtensorMapInterleave>(3); }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.swizzle = static_cast<CUtensorMapSwizzle>(7); }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.promotion = static_cast<CUtensorMapL2promotion>(4); }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.fill = static_cast<CUtensorMapFloatOOBfill>(2); }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.address = reinterpret_cast<void*>(0x10008); }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.sizes[1] = 0; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.sizes[1] = cuuint64_t{1} << 32; }), CUDA_SUCCESS);
  EXPECT_EQ(With([](Tiled& t) { t.sizes[1] = (cuuint64_t{1} << 32) + 1; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.strides[0] = 264; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.strides[0] = cuuint64_t{1} << 40; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.strides[1] = 8; }), CUDA_SUCCESS)
      << "there is no third dimension";
  EXPECT_EQ(With([](Tiled& t) { t.box[1] = 0; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.box[1] = 256; }), CUDA_SUCCESS);
  EXPECT_EQ(With([](Tiled& t) { t.box[1] = 257; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.box[0] = 30; }), refused) << "120 bytes";
  EXPECT_EQ(With([](Tiled& t) { t.steps[1] = 0; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.steps[1] = 8; }), CUDA_SUCCESS);
  EXPECT_EQ(With([](Tiled& t) { t.steps[1] = 9; }), refused);
  EXPECT_EQ(With([](Tiled& t) { t.steps[0] = 0; }), CUDA_SUCCESS) << "is ignored";
}

TEST_F(TensorMapsTest, SwizzlesAndLayoutsBoundTheInnerDimension) {
  const CUresult refused = CUDA_ERROR_INVALID_VALUE;
  const auto swizzled = [](CUtensorMapSwizzle swizzle, cuuint32_t box) {
    return With([&](Tiled& t) {
      t.swizzle = swizzle;
      t.box[0] = box;
    });
  };
  EXPECT_EQ(swizzled(CU_TENSOR_MAP_SWIZZLE_32B, 8), CUDA_SUCCESS);
  EXPECT_EQ(swizzled(CU_TENSOR_MAP_SWIZZLE_32B, 12), refused);
  EXPECT_EQ(swizzled(CU_TENSOR_MAP_SWIZZLE_64B, 16), CUDA_SUCCESS);
  EXPECT_EQ(swizzled(CU_TENSOR_MAP_SWIZZLE_64B, 20), refused);
  EXPECT_EQ(swizzled(CU_TENSOR_MAP_SWIZZLE_128B, 32), CUDA_SUCCESS);
  EXPECT_EQ(swizzled(CU_TENSOR_MAP_SWIZZLE_128B, 36), refused);
  const auto interleaved = [](cuuint32_t rank, CUtensorMapSwizzle swizzle, cuuint64_t stride) {
    return With([&](Tiled& t) {
      t.rank = rank;
      t.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
      t.swizzle = swizzle;
      t.strides[0] = stride;
    });
  };
  EXPECT_EQ(interleaved(3, CU_TENSOR_MAP_SWIZZLE_32B, 256), CUDA_SUCCESS);
  EXPECT_EQ(interleaved(2, CU_TENSOR_MAP_SWIZZLE_32B, 256), refused);
  EXPECT_EQ(interleaved(3, CU_TENSOR_MAP_SWIZZLE_64B, 256), refused);
  EXPECT_EQ(interleaved(3, CU_TENSOR_MAP_SWIZZLE_32B, 272), refused);
  const auto filled = [](CUtensorMapDataType type) {
    return With([&](Tiled& t) {
      t.type = type;
      t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    });
  };
  EXPECT_EQ(filled(CU_TENSOR_MAP_DATA_TYPE_FLOAT32), CUDA_SUCCESS);
  EXPECT_EQ(filled(CU_TENSOR_MAP_DATA_TYPE_UINT32), refused);
}

TEST_F(TensorMapsTest, PackedElementsComeInGroups) {
  const CUresult refused = CUDA_ERROR_INVALID_VALUE;
  const auto packed = [](cuuint32_t box, cuuint64_t size, CUtensorMapSwizzle swizzle) {
    return With([&](Tiled& t) {
      t.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
      t.box[0] = box;
      t.sizes[0] = size;
      t.swizzle = swizzle;
    });
  };
  EXPECT_EQ(packed(128, 256, CU_TENSOR_MAP_SWIZZLE_128B), CUDA_SUCCESS);
  EXPECT_EQ(packed(64, 256, CU_TENSOR_MAP_SWIZZLE_128B), refused);
  EXPECT_EQ(packed(128, 192, CU_TENSOR_MAP_SWIZZLE_128B), refused);
  EXPECT_EQ(packed(128, 256, CU_TENSOR_MAP_SWIZZLE_64B), refused);
}

TEST_F(TensorMapsTest, PixelsHaveBoundsOfTheirOwn) {
  const CUresult refused = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(With<Im2col>([](Im2col&) {}), CUDA_SUCCESS);
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.rank = 2; }), refused);
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.lower[0] = -128; }), CUDA_SUCCESS);
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.lower[0] = -129; }), refused);
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.upper[1] = 128; }), refused);
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.upper[2] = 1000; }), CUDA_SUCCESS) << "is not read";
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.channels = 257; }), refused);
  EXPECT_EQ(With<Im2col>([](Im2col& t) { t.pixels = 1025; }), refused);
  EXPECT_EQ(With<Im2col>([](Im2col& t) {
              t.rank = 5;
              t.lower[0] = 16;
            }),
            refused);
  CUtensorMap map{};
  Im2col wide;
  EXPECT_EQ(wide.EncodeWide(&map), refused) << "without a swizzle";
  wide.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  EXPECT_EQ(wide.EncodeWide(&map), CUDA_ERROR_NOT_SUPPORTED) << "the driver has no such function";
}

TEST_F(TensorMapsTest, NeedsAContext) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxPopCurrent(&context), CUDA_SUCCESS);
  CUtensorMap map{};
  EXPECT_EQ(Tiled().Encode(&map), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
}

}  // namespace
}  // namespace cuspan
