// Tests bulk copies of tensors by tensor maps, and maps made by kernels. (PTX ISA,
// "cp.async.bulk.tensor", "cp.reduce.async.bulk", "tensormap.replace")
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "proxy/softgpu/rt/tensor_map.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

constexpr std::size_t kBoxBytes = 16384;

// A map as passed to kernels.
struct Arguments {
  TensorMap map;
  std::uint8_t unused[sizeof(CUtensorMap) - sizeof(TensorMap)] = {};
};

// Makes a kernel: one thread works on `box` in shared memory, filled with 0xee, while the others
// wait. `%r1` is the box, `%r2` a barrier waiting for `bytes`, `%d1` the map, `%d2` the results,
// `%c0` to `%c4` the coordinates. Results: 1 if the barrier is complete, else 0; then the box.
std::string KernelOf(const std::string& work, unsigned shared_bytes = kBoxBytes) {
  return Module(Format(R"(
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 bytes,
                  .param .align 4 .b8 at[20])
{{
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b32 %c<5>; .reg .b16 %h<4>; .reg .b64 %d<10>;
  .shared .align 1024 .b8 box[{0}];
  .shared .align 8 .b64 barrier;
  mov.u32 %r1, box; mov.u32 %r2, barrier; mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
  ld.param.u64 %d2, [out]; ld.param.u32 %r3, [bytes];
  ld.param.b32 %c0, [at]; ld.param.b32 %c1, [at+4]; ld.param.b32 %c2, [at+8];
  ld.param.b32 %c3, [at+12]; ld.param.b32 %c4, [at+16];
  mov.u32 %r4, %tid.x; setp.ne.u32 %p1, %r4, 0; @%p1 bra END;
  mbarrier.init.shared::cta.b64 [%r2], 1;
  mov.u32 %r5, 0;
FILL: add.u32 %r6, %r1, %r5; mov.b32 %r7, 0xeeeeeeee; st.shared.b32 [%r6], %r7; add.u32 %r5, %r5, 4;
  setp.lt.u32 %p2, %r5, {0}; @%p2 bra FILL;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %d3, [%r2], %r3;
{1}
  mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;
  selp.b32 %r5, 1, 0, %p3; st.global.b32 [%d2], %r5;
  mov.u32 %r5, 0;
COPY: add.u32 %r6, %r1, %r5; ld.shared.b32 %r7, [%r6]; cvt.u64.u32 %d4, %r5; add.u64 %d4, %d4, %d2;
  st.global.b32 [%d4+4], %r7; add.u32 %r5, %r5, 4; setp.lt.u32 %p2, %r5, {0}; @%p2 bra COPY;
END: bar.sync 0;
  ret;
}})",
                       shared_bytes, work));
}

std::string CoordinatesOf(unsigned rank) {
  std::string text = "{%c0";
  for (unsigned i = 1; i < rank; ++i) text += Format(", %c{}", i);
  return text + "}";
}
std::string LoadOf(unsigned rank) {
  return KernelOf(Format(
      "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
      "[%d1, {}], [%r2];",
      rank, CoordinatesOf(rank)));
}

using Place = std::array<std::int32_t, 5>;

// Memory of a tensor with a long period of its bytes, and maps of it.
class TensorTest : public ::testing::Test {
 protected:
  TensorTest() {
    for (std::size_t i = 0; i < sizeof memory_; ++i)
      memory_[i] = static_cast<std::uint8_t>(i * 31 + i / 256);
  }

  // Makes a map of a dense tensor. Only rows are padded, to multiples of 16 bytes.
  Arguments MapOf(Element element, const std::vector<unsigned>& sizes,
                  const std::vector<unsigned>& box) {
    Arguments arguments;
    TensorMap& map = arguments.map;
    map.magic = TensorMap::kMagic;
    map.address = std::bit_cast<std::uint64_t>(&memory_[0]);
    map.rank = static_cast<std::uint8_t>(sizes.size());
    map.element = static_cast<std::uint8_t>(element);
    std::uint64_t stride = (sizes[0] * BytesOf(element) + 15) / 16 * 16;
    for (unsigned i = 0; i < sizes.size(); ++i) {
      map.last[i] = sizes[i] - 1;
      map.box[i] = static_cast<std::uint16_t>(i < box.size() ? box[i] : 0);
      map.steps[i] = 1;
      if (i == 0) continue;
      map.strides[i - 1] = stride;
      stride *= sizes[i];
    }
    return arguments;
  }
  static unsigned BoxBytes(const Arguments& arguments) {
    unsigned bytes = BytesOf(static_cast<Element>(arguments.map.element));
    for (unsigned i = 0; i < arguments.map.rank; ++i)
      bytes *= i == 0
                   ? arguments.map.box[0]
                   : (arguments.map.box[i] + arguments.map.steps[i] - 1U) / arguments.map.steps[i];
    return bytes;
  }

  // Expected box of a tile, row by row. Elements outside the tensor are `outside`, repeated.
  std::vector<std::uint8_t> Tile(const Arguments& arguments, const Place& at,
                                 std::vector<std::uint8_t> outside = {0}) const {
    const TensorMap& map = arguments.map;
    const unsigned bytes = BytesOf(static_cast<Element>(map.element));
    std::vector<std::uint8_t> box;
    std::function<void(unsigned, std::uint64_t, bool)> walk =
        [&](unsigned dimension, std::uint64_t offset, bool inside) {
          const unsigned step = dimension == 0 ? 1 : map.steps[dimension];
          for (unsigned i = 0; i < map.box[dimension]; i += step) {
            const std::int64_t place = std::int64_t{at[dimension]} + i;
            const bool here = inside && place >= 0 && place <= map.last[dimension];
            const std::uint64_t stride = dimension == 0 ? bytes : map.strides[dimension - 1];
            const std::uint64_t there = offset + static_cast<std::uint64_t>(place) * stride;
            if (dimension != 0) {
              walk(dimension - 1, there, here);
              continue;
            }
            for (unsigned k = 0; k < bytes; ++k)
              box.push_back(here ? memory_[there + k] : outside[k % outside.size()]);
          }
        };
    walk(map.rank - 1U, 0, true);
    return box;
  }

  // Runs the kernel. Returns its report on the barrier, and the first `bytes` of its box.
  struct Outcome {
    int error;
    std::uint32_t complete = 0;
    std::vector<std::uint8_t> box;
  };
  Outcome Run(Device& device, const Arguments& arguments, const Place& at, std::size_t bytes,
              unsigned expected_bytes, unsigned threads = 1) {
    std::vector<std::uint32_t> out(1 + kBoxBytes / 4);
    Outcome outcome;
    outcome.error =
        device.Launch("k", {1}, {threads}, 0, arguments, out.data(), expected_bytes, at);
    outcome.complete = out[0];
    const auto* const box = reinterpret_cast<const std::uint8_t*>(&out[1]);
    outcome.box.assign(box, box + bytes);
    return outcome;
  }
  // The same for a successful copy.
  std::vector<std::uint8_t> Copied(Device& device, const Arguments& arguments, const Place& at,
                                   std::size_t bytes, unsigned threads = 1) {
    const Outcome outcome = Run(device, arguments, at, bytes, BoxBytes(arguments), threads);
    EXPECT_EQ(outcome.error, CUDA_SUCCESS) << device.message();
    EXPECT_EQ(outcome.complete, 1U) << "the barrier waits for other bytes";
    return outcome.box;
  }

  alignas(1024) std::uint8_t memory_[65536];
};

TEST_F(TensorTest, LoadsTilesOfEveryRank) {
  const std::vector<unsigned> sizes = {20, 7, 5, 4, 3}, box = {8, 3, 2, 2, 2};
  for (unsigned rank = 1; rank <= 5; ++rank) {
    Device device(LoadOf(rank));
    const Arguments arguments = MapOf(Element::kF32, {sizes.begin(), sizes.begin() + rank},
                                      {box.begin(), box.begin() + rank});
    const std::size_t bytes = BoxBytes(arguments);
    for (const Place at : {Place{0, 0, 0, 0, 0}, Place{3, 2, 1, 1, 1}, Place{-3, -1, -1, -1, -1},
                           Place{16, 6, 4, 3, 2}, Place{100, 0, 0, 0, 0}, Place{-8, 0, 0, 0, 0}})
      EXPECT_EQ(Copied(device, arguments, at, bytes), Tile(arguments, at)) << rank << " dimensions";
  }
}

// Also tests code for a warp; its other lanes do nothing.
TEST_F(TensorTest, OneThreadOfABlockLoads) {
  Device device(LoadOf(2));
  const Arguments arguments = MapOf(Element::kF32, {20, 10}, {8, 4});
  EXPECT_EQ(Copied(device, arguments, {2, 3}, 128, 64), Tile(arguments, {2, 3}));
}

TEST_F(TensorTest, LoadsElementsOfEverySize) {
  for (const Element element : {Element::kU8, Element::kBf16, Element::kS32, Element::kF64}) {
    Device device(LoadOf(2));
    const unsigned row = 32 / BytesOf(element);
    const Arguments arguments = MapOf(element, {3 * row, 10}, {row, 4});
    for (const Place at : {Place{1, 1}, Place{-1, -1}, Place{2 * static_cast<int>(row) + 1, 8}})
      EXPECT_EQ(Copied(device, arguments, at, 128), Tile(arguments, at)) << BytesOf(element);
  }
}

TEST_F(TensorTest, FillsWithNaN) {
  Device device(LoadOf(2));
  Arguments arguments = MapOf(Element::kF32, {20, 10}, {8, 4});
  arguments.map.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  const auto box = Copied(device, arguments, {16, 8}, 128);
  EXPECT_EQ(box, Tile(arguments, {16, 8}, {0xff, 0xff, 0xff, 0x7f}));
  float last = 0;
  std::memcpy(&last, &box[124], sizeof last);
  EXPECT_TRUE(std::isnan(last));
}

TEST_F(TensorTest, TakesEverySoManyElements) {
  Device device(LoadOf(3));
  Arguments arguments = MapOf(Element::kF32, {20, 10, 6}, {8, 7, 4});
  arguments.map.steps[0] = 5;  // Ignored.
  arguments.map.steps[1] = 3;
  arguments.map.steps[2] = 2;
  EXPECT_EQ(BoxBytes(arguments), 8U * 3 * 2 * 4);
  for (const Place at : {Place{0, 0, 0}, Place{2, 5, 3}, Place{-1, -2, -1}})
    EXPECT_EQ(Copied(device, arguments, at, 192), Tile(arguments, at));
}

// The index of a 16-byte chunk is XORed with address bits from bit 7 up.
TEST_F(TensorTest, SwizzlesChunks) {
  Device device(LoadOf(2));
  for (const auto& [swizzle, mask] :
       {std::pair{CU_TENSOR_MAP_SWIZZLE_32B, 1U}, std::pair{CU_TENSOR_MAP_SWIZZLE_64B, 3U},
        std::pair{CU_TENSOR_MAP_SWIZZLE_128B, 7U}}) {
    const unsigned row = 4 * (mask + 1);  // Length of the swizzle span.
    Arguments arguments = MapOf(Element::kF32, {40, 64}, {row, 64});
    arguments.map.swizzle = static_cast<std::uint8_t>(swizzle);
    const auto plain = Tile(arguments, {0, 0});
    const auto box = Copied(device, arguments, {0, 0}, plain.size());
    std::vector<std::uint8_t> expected(plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) expected[i ^ ((i >> 7 & mask) << 4)] = plain[i];
    EXPECT_EQ(box, expected) << swizzle;
    EXPECT_NE(box, plain);
  }
}

std::string StoreOf(unsigned rank, const std::string& reduction = "") {
  return KernelOf(Format(
      "cp{}.async.bulk.tensor.{}d.global.shared::cta{}.tile.bulk_group [%d1, {}], [%r1];"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;",
      reduction.empty() ? "" : ".reduce", rank, reduction.empty() ? "" : "." + reduction,
      CoordinatesOf(rank)));
}

TEST_F(TensorTest, StoresWhatLiesInside) {
  Device device(StoreOf(2));
  const Arguments arguments = MapOf(Element::kU16, {20, 10}, {8, 4});
  for (const Place at : {Place{3, 2}, Place{-4, -1}, Place{17, 8}}) {
    const std::vector<std::uint8_t> before(std::begin(memory_), std::end(memory_));
    ASSERT_EQ(Run(device, arguments, at, 0, 0).error, CUDA_SUCCESS) << device.message();
    const std::size_t stride = arguments.map.strides[0];
    for (std::size_t i = 0; i < sizeof memory_; ++i) {
      const auto x = static_cast<int>(i % stride / 2), y = static_cast<int>(i / stride);
      const bool inside = x >= std::max(at[0], 0) && x < std::min(at[0] + 8, 20) &&
                          y >= std::max(at[1], 0) && y < std::min(at[1] + 4, 10);
      ASSERT_EQ(memory_[i], inside ? 0xee : before[i]) << "byte " << i;
    }
  }
}

TEST_F(TensorTest, ReducesInMemory) {
  const auto run = [&](const char* reduction, Element element, auto before, auto after) {
    Device device(StoreOf(1, reduction));
    const auto count = static_cast<unsigned>(16 / sizeof before);
    const Arguments arguments = MapOf(element, {count}, {count});
    std::memcpy(memory_, &before, sizeof before);
    EXPECT_EQ(Run(device, arguments, {}, 0, 0).error, CUDA_SUCCESS) << device.message();
    decltype(before) got{};
    std::memcpy(&got, memory_, sizeof got);
    EXPECT_EQ(got, after) << reduction;
  };
  const std::uint32_t word = 0xeeeeeeee;
  run("add", Element::kU32, 5U, word + 5U);
  run("min", Element::kU32, 5U, 5U);
  run("max", Element::kU32, 5U, word);
  run("min", Element::kS32, 5U, word);
  run("max", Element::kS32, 5U, 5U);
  run("and", Element::kU32, 0xf0f0f0f0U, 0xe0e0e0e0U);
  run("or", Element::kU32, 0x10101010U, 0xfefefefeU);
  run("xor", Element::kS64, std::uint64_t{0}, 0xeeeeeeeeeeeeeeeeU);
  run("inc", Element::kU32, 5U, 6U);
  run("dec", Element::kU32, 0U, word);
  run("add", Element::kF32, 1e28F, 1e28F + std::bit_cast<float>(word));
  // 0xeeee is -7.1e3 as f16 and -3.7e28 as bf16.
  run("add", Element::kF16, std::uint16_t{0x6eee}, std::uint16_t{0});
  run("add", Element::kBf16, std::uint16_t{0x6eee}, std::uint16_t{0});
  run("max", Element::kBf16, std::uint16_t{0x3f80}, std::uint16_t{0x3f80});
  run("min", Element::kF16, std::uint16_t{0x3c00}, std::uint16_t{0xeeee});
  Device refused(StoreOf(1, "inc"));
  EXPECT_EQ(Run(refused, MapOf(Element::kF32, {4}, {4}), {}, 0, 0).error,
            CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

TEST_F(TensorTest, BulkCopiesReduceWithoutAMap) {
  Device device(KernelOf(
      "mov.b64 %d5, %d2; add.u64 %d5, %d5, 32768;"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d5], [%r1], 64;"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
      "add.u32 %r8, %r1, 1024; mbarrier.arrive.expect_tx.shared::cta.b64 %d3, [%r2], 32;"
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.and.b32 "
      "[%r1], [%r8], 32, [%r2];"));
  alignas(16) static std::uint32_t out[16384];
  std::fill(std::begin(out), std::end(out), 1U);
  EXPECT_EQ(device.Launch("k", {1}, {1}, 0, Arguments{}, &out[0], 0U, Place{}), CUDA_SUCCESS)
      << device.message();
  for (unsigned i = 8192; i < 8208; ++i) EXPECT_EQ(out[i], 0xeeeeeeefU);
  EXPECT_EQ(out[8208], 1U);
}

// The box of pixels is the image, moved by -1 in both dimensions.
TEST_F(TensorTest, LoadsPixelsOfImages) {
  Device device(KernelOf(
      "mov.u16 %h1, 1; mov.u16 %h2, 0;"
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], "
      "[%d1, {%c0, %c1, %c2, %c3}], [%r2], {%h1, %h2};"));
  Arguments arguments = MapOf(Element::kF32, {4, 5, 3, 2}, {4, 12});  // Channels and pixels.
  TensorMap& map = arguments.map;
  map.im2col = 1;
  map.lower[0] = map.lower[1] = map.upper[0] = map.upper[1] = -1;
  std::vector<std::uint8_t> expected;
  int w = 2, h = 1, n = 0;
  for (int pixel = 0; pixel < 12; ++pixel) {
    const bool inside = w + 1 >= 0 && w + 1 < 5 && h >= 0 && h < 3;
    const auto at = static_cast<std::size_t>(n) * map.strides[2] +
                    static_cast<std::size_t>(h) * map.strides[1] +
                    static_cast<std::size_t>(w + 1) * map.strides[0];
    for (std::size_t k = 0; k < 16; ++k) expected.push_back(inside ? memory_[at + k] : 0);
    if (++w <= 3) continue;
    w = -1;
    if (++h <= 1) continue;
    h = -1;
    ++n;
  }
  const Outcome outcome = Run(device, arguments, {0, 2, 1, 0}, expected.size(), 12 * 16);
  EXPECT_EQ(outcome.error, CUDA_SUCCESS) << device.message();
  EXPECT_EQ(outcome.complete, 1U);
  EXPECT_EQ(outcome.box, expected);
}

// A kernel fills in a map of zeros by field, copies it to global memory and uses it for a load.
TEST_F(TensorTest, KernelsMakeMaps) {
  const std::string zeros = [] {
    std::string text = "mov.u64 %d9, 0;";
    for (int i = 0; i < 128; i += 8) text += Format("st.shared.b64 [%r1+{}], %d9;", 8192 + i);
    return text;
  }();
  const auto set = [](const char* field, const char* value, const char* type = "b32") {
    return Format("tensormap.replace.tile.{}.shared::cta.b1024.{} [%r1+8192], {};", field, type,
                  value);
  };
  // The tensor's address is read from the map in the argument.
  Device device(KernelOf(
      zeros + "ld.b64 %d8, [%d1+8];" + set("global_address", "%d8", "b64") + set("rank", "1") +
      set("box_dim", "0, 8") + set("box_dim", "1, 4") + set("global_dim", "0, 20") +
      set("global_dim", "1, 10") + "mov.u64 %d7, 80;" + set("global_stride", "0, %d7", "b64") +
      set("element_stride", "0, 1") + set("element_stride", "1, 1") + set("elemtype", "0x7") +
      set("interleave_layout", "0x0") + set("swizzle_mode", "0x0") + set("fill_mode", "0x0") +
      "add.u64 %d6, %d2, 32768; add.u32 %r8, %r1, 8192;"
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%d6], [%r8], 128;"
      "fence.proxy.tensormap::generic.acquire.gpu [%d6], 128;"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], "
      "[%d6, {%c0, %c1}], [%r2];"));
  const Arguments arguments = MapOf(Element::kF32, {20, 10}, {8, 4});
  std::vector<std::uint32_t> out(16384);
  const Place at{15, 3};
  ASSERT_EQ(device.Launch("k", {1}, {1}, 0, arguments, out.data(), 128U, at), CUDA_SUCCESS)
      << device.message();
  EXPECT_EQ(out[0], 1U);
  const auto* const box = reinterpret_cast<const std::uint8_t*>(&out[1]);
  EXPECT_EQ(std::vector(box, box + 128), Tile(arguments, at));
}

// All lanes reach the copy before one lane does it, in both models.
TEST_F(TensorTest, MapsAreCopiedByAWholeWarp) {
  for (const auto model : {ExecutionModel::kThread, ExecutionModel::kVector}) {
    ProgramOptions options;
    options.model = model;
    Device device(Module(R"(.visible .entry k(.param .u64 out) {
      .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<9>;
      .shared .align 128 .b8 map[128];
      mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mov.u32 %r2, map;
      shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; add.u32 %r5, %r1, 100; st.shared.b32 [%r4], %r5;
      tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1],
        [%r2], 128;
      mov.b32 %r7, 0; st.shared.b32 [%r4], %r7;
      xor.b32 %r3, %r3, 124; cvt.u64.u32 %d2, %r3; add.u64 %d2, %d2, %d1; ld.global.b32 %r6, [%d2];
      st.global.b32 [%d2+128], %r6; ret; })"),
                  options);
    std::vector<std::uint32_t> out(64, 0xdead);
    ASSERT_EQ(device.Launch("k", {1}, {32}, 0, out.data()), CUDA_SUCCESS) << device.message();
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], 100 + i % 32) << i;
  }
}

TEST_F(TensorTest, WhatIsTooLargeForAFieldIsWrong) {
  const auto problem = [this](TensorField field, std::uint32_t ordinal, std::uint64_t value) {
    TensorMap map = MapOf(Element::kF32, {20, 10}, {8, 4}).map;
    EXPECT_EQ(map.Problem(), nullptr);
    EXPECT_TRUE(ReplaceField(&map, field, ordinal, value));
    return map.Problem() != nullptr;
  };
  EXPECT_FALSE(problem(TensorField::kBox, 1, 8));
  EXPECT_TRUE(problem(TensorField::kBox, 1, 0x1'0008));
  EXPECT_TRUE(problem(TensorField::kStep, 1, 0x101));
  EXPECT_TRUE(problem(TensorField::kRank, 0, 0x101));
  EXPECT_TRUE(problem(TensorField::kInterleave, 0, 0x100));
  EXPECT_TRUE(problem(TensorField::kSwizzle, 0, 0x100));
  EXPECT_TRUE(problem(TensorField::kAtomicity, 0, 0x100));
  EXPECT_TRUE(problem(TensorField::kFill, 0, 0x100));
}

TEST_F(TensorTest, MapsThatAreNoneEndTheKernel) {
  Device device(LoadOf(2));
  const auto run = [&](auto change) {
    Arguments arguments = MapOf(Element::kF32, {20, 10}, {8, 4});
    change(arguments.map);
    return Run(device, arguments, {}, 0, 128).error;
  };
  EXPECT_EQ(run([](TensorMap&) {}), CUDA_SUCCESS);
  EXPECT_EQ(run([](TensorMap& map) { map.magic = 0; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.magic ^= 1; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.rank = 3; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.rank = 200; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.element = 13; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.steps[1] = 0; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.interleave = 1; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.im2col = 1; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.box[0] = 3; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.address += 8; }), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(run([](TensorMap& map) { map.box[0] = map.box[1] = 256; }), CUDA_ERROR_ILLEGAL_ADDRESS)
      << "a box of 256 KiB";
}

TEST_F(TensorTest, SharedBoxesAreAligned) {
  Device device(
      KernelOf("add.u32 %r8, %r1, 64;"
               "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], "
               "[%d1, {%c0, %c1}], [%r2];"));
  EXPECT_EQ(Run(device, MapOf(Element::kF32, {20, 10}, {8, 4}), {}, 0, 128).error,
            CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(TensorTest, HintsChangeNothing) {
  Device device(KernelOf(
      "prefetch.tensormap [%d1]; cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d1, {%c0, %c1}];"
      "mov.u64 %d5, 0; mov.u16 %h1, 1;"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes."
      "multicast::cluster.L2::cache_hint [%r1], [%d1, {%c0, %c1}], [%r2], %h1, %d5;"));
  const Arguments arguments = MapOf(Element::kF32, {20, 10}, {8, 4});
  EXPECT_EQ(Copied(device, arguments, {1, 1}, 128), Tile(arguments, {1, 1}));
}

TEST_F(TensorTest, NewerFormsAreRefusedByName) {
  const auto refusal = [](const std::string& work) {
    auto program = Program::Load(KernelOf(work));
    if (!program.ok()) return std::string(program.status().message());
    return std::string((*program)->Compile("k").status().message());
  };
  EXPECT_THAT(refusal("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::"
                      "complete_tx::bytes [%r1], [%d1, {%c0, %c1}], [%r2];"),
              ::testing::HasSubstr("tile::gather4"));
  EXPECT_THAT(refusal("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d1, {%c0}], [%r1];"),
              ::testing::HasSubstr("number of elements"));
  EXPECT_THAT(refusal("tensormap.replace.tile.nothing.shared::cta.b1024.b32 [%r1], 0;"),
              ::testing::HasSubstr("tensormap"));
}

}  // namespace
}  // namespace cuspan::softgpu
