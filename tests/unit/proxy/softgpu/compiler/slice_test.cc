// Slices of any size give the same bits as the whole launch.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>

#include "proxy/slicing/slice_ptx.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"
#include "tests/unit/proxy/softgpu/compiler/random_kernel.h"

namespace cuspan::softgpu {
namespace {

using slicing::SliceArguments;
using slicing::SlicedPtx;

// A sliced kernel. `original` has loaded `ptx` and contains the variables.
class SlicedKernel {
 public:
  SlicedKernel(const std::string& ptx, std::string kernel, Device& original)
      : kernel_(std::move(kernel)), original_(original) {
    auto sliced =
        slicing::SlicePtx(ptx, kernel_, [&](std::string_view name) -> std::optional<std::uint64_t> {
          return reinterpret_cast<std::uint64_t>(original_.Variable(name));
        });
    EXPECT_TRUE(sliced.ok()) << sliced.status().message();
    if (!sliced.ok()) return;
    sliced_ = std::move(*sliced);
    device_.emplace(sliced_.text);
  }

  const SlicedPtx& sliced() const { return sliced_; }

  // Launches the kernel in slices of at most `most` blocks.
  template <typename... Arguments>
  void Launch(std::uint32_t most, Extent grid, Extent block, std::uint32_t dynamic_shared,
              const Arguments&... arguments) {
    if (!device_) return;
    for (const SlicedPtx::Constant& constant : sliced_.constants)
      std::memcpy(device_->Variable(constant.name), original_.Variable(constant.name),
                  constant.bytes);
    const std::uint32_t blocks = grid.x * grid.y * grid.z;
    for (std::uint32_t first = 0; first < blocks; first += most) {
      const SliceArguments slice{first, {grid.x, grid.y, grid.z}};
      const int error = device_->Launch(kernel_, {std::min(most, blocks - first)}, block,
                                        dynamic_shared, arguments..., SliceBytes(slice));
      ASSERT_EQ(error, CUDA_SUCCESS) << device_->message() << "\n" << sliced_.text;
    }
  }

 private:
  static std::array<std::uint8_t, sizeof(SliceArguments)> SliceBytes(const SliceArguments& slice) {
    std::array<std::uint8_t, sizeof slice> bytes;
    std::memcpy(bytes.data(), &slice, sizeof slice);
    return bytes;
  }

  const std::string kernel_;
  Device& original_;
  SlicedPtx sliced_;
  std::optional<Device> device_;
};

constexpr Extent kGrids[] = {{1, 1, 1}, {37, 1, 1}, {5, 7, 1}, {3, 4, 5},
                             {1, 1, 6}, {1, 9, 1},  {1, 3, 4}, {4, 1, 3}};
constexpr std::uint32_t kSizes[] = {1, 2, 3, 7, 16, 1000};

#define EXPECT_WHOLE(device, launch) EXPECT_EQ((device).launch, CUDA_SUCCESS) << (device).message()

TEST(Slices, BlocksAreThoseOfTheWholeGrid) {
  // Each thread adds to its block's words: the block's indices, the grid's size, and 1.
  const std::string ptx = Module(
      ".visible .entry k(.param .u64 output)\n{\n"
      "  .reg .b32 %r<9>; .reg .b64 %d<3>;\n"
      "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;\n"
      "  mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mov.u32 %r6, %nctaid.z;\n"
      "  mad.lo.u32 %r7, %r3, %r5, %r2; mad.lo.u32 %r7, %r7, %r4, %r1;\n"
      "  mul.wide.u32 %d1, %r7, 32; ld.param.u64 %d2, [output]; add.u64 %d1, %d1, %d2;\n"
      "  red.global.add.u32 [%d1], %r1; red.global.add.u32 [%d1+4], %r2;\n"
      "  red.global.add.u32 [%d1+8], %r3; red.global.add.u32 [%d1+12], %r4;\n"
      "  red.global.add.u32 [%d1+16], %r5; red.global.add.u32 [%d1+20], %r6;\n"
      "  red.global.add.u32 [%d1+24], 1; mov.u32 %r8, %ctaid.x; red.global.add.u32 [%d1+28], %r8;\n"
      "  ret;\n}\n");
  Device device(ptx);
  SlicedKernel kernel(ptx, "k", device);
  for (const Extent grid : kGrids) {
    std::vector<std::uint32_t> whole(std::size_t{8} * grid.x * grid.y * grid.z);
    EXPECT_WHOLE(device, Launch("k", grid, {4, 2}, 0, whole.data()));
    for (const std::uint32_t size : kSizes) {
      std::vector<std::uint32_t> slices(whole.size());
      kernel.Launch(size, grid, {4, 2}, 0, slices.data());
      ASSERT_EQ(slices, whole) << grid.x << " " << grid.y << " " << grid.z << " by " << size;
    }
  }
}

// If a kernel reads only some of the indices, only these are computed.
TEST(Slices, AnySomeOfTheIndicesAreRight) {
  for (unsigned read = 1; read < 8; ++read) {
    std::string text =
        ".visible .entry k(.param .u64 output)\n{\n  .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
        "  mov.u32 %r1, 0;\n";
    for (unsigned axis = 0; axis < 3; ++axis)
      if ((read >> axis & 1) != 0)
        text += Format("  mov.u32 %r2, %ctaid.{}; mad.lo.u32 %r1, %r1, 64, %r2;\n", "xyz"[axis]);
    text +=
        "  mul.wide.u32 %d1, %r1, 4; ld.param.u64 %d2, [output]; add.u64 %d1, %d1, %d2;\n"
        "  red.global.add.u32 [%d1], 1; ret;\n}\n";
    const std::string ptx = Module(text);
    Device device(ptx);
    SlicedKernel kernel(ptx, "k", device);
    for (const Extent grid : kGrids) {
      std::vector<std::uint32_t> whole(64 * 64 * 64), slices(whole.size());
      EXPECT_WHOLE(device, Launch("k", grid, {1}, 0, whole.data()));
      kernel.Launch(5, grid, {1}, 0, slices.data());
      ASSERT_EQ(slices, whole) << read << ": " << grid.x << " " << grid.y << " " << grid.z;
    }
  }
}

TEST(Slices, VariablesAreTheOriginals) {
  // Draws numbers from a counter shared with the host and the whole launch.
  const std::string ptx = Module(
      ".visible .global .align 4 .u32 counters[4];\n.visible .const .align 4 .u32 factor = 3;\n"
      ".shared .align 4 .u32 board[64];\n"
      ".func (.param .b32 r) drawn(.param .b32 n)\n{\n"
      "  .reg .b32 %r<3>;\n"
      "  ld.param.b32 %r1, [n]; atom.global.add.u32 %r2, [counters+4], %r1;\n"
      "  st.param.b32 [r], %r2; ret;\n}\n"
      ".visible .entry k(.param .u64 output)\n{\n"
      "  .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
      "  ld.const.u32 %r1, [factor]; mov.u32 %r2, %tid.x; mov.u32 %r6, board;\n"
      "  shl.b32 %r3, %r2, 2; add.u32 %r6, %r6, %r3; mul.lo.u32 %r4, %r1, %r2;\n"
      "  st.shared.u32 [%r6], %r4; bar.sync 0;\n"
      "  xor.b32 %r3, %r3, 4; mov.u32 %r6, board; add.u32 %r6, %r6, %r3;\n"
      "  ld.shared.u32 %r4, [%r6];\n"
      "  mov.u64 %d1, counters; red.global.add.u32 [%d1+8], %r4;\n"
      "  { .param .b32 a; .param .b32 b; st.param.b32 [a], 1; call (b), drawn, (a);\n"
      "    ld.param.b32 %r5, [b]; }\n"
      "  mul.wide.u32 %d2, %r5, 4; ld.param.u64 %d3, [output]; add.u64 %d2, %d2, %d3;\n"
      "  red.global.add.u32 [%d2], 1; ret;\n}\n");
  Device device(ptx);
  SlicedKernel kernel(ptx, "k", device);
  ASSERT_EQ(kernel.sliced().constants.size(), 1u);
  auto* const counters = static_cast<std::uint32_t*>(device.Variable("counters"));
  auto* const factor = static_cast<std::uint32_t*>(device.Variable("factor"));
  std::vector<std::uint32_t> drawn(64 * 10 * 2);
  kernel.Launch(3, {10}, {64}, 0, drawn.data());
  EXPECT_EQ(counters[1], 640u);
  EXPECT_EQ(counters[2], 10u * 3 * (63 * 64 / 2));
  *factor = 5;
  counters[2] = 7;
  kernel.Launch(4, {5}, {64}, 0, drawn.data());
  EXPECT_EQ(counters[2], 7u + 5 * 5 * (63 * 64 / 2));
  EXPECT_WHOLE(device, Launch("k", {5}, {64}, 0, drawn.data()));
  EXPECT_EQ(counters[1], 1280u);
  EXPECT_THAT(drawn, testing::Each(1u)) << "each number was drawn once";
}

// Kernels compiled by nvcc: two dimensions with shared memory, three dimensions, dynamic shared
// memory, atomics and barriers, and printf.
class SlicesOfNvcc : public testing::TestWithParam<const char*> {
 protected:
  static std::string Text() {
    std::ifstream file(Format("{}/kernels_{}.ptx", CUSPAN_TEST_PTX_FOLDER, GetParam()));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // Compares `output` elements written by the whole launch and by slices.
  template <typename T, typename... Arguments>
  void Compare(const std::string& name, Extent grid, Extent block, std::uint32_t dynamic_shared,
               std::size_t output, const Arguments&... arguments) {
    SlicedKernel kernel(ptx_, name, device_);
    std::vector<T> whole(output), slices(output);
    EXPECT_WHOLE(device_, Launch(name, grid, block, dynamic_shared, arguments..., whole.data()));
    for (const std::uint32_t size : {1u, 3u}) {
      std::fill(slices.begin(), slices.end(), T{});
      kernel.Launch(size, grid, block, dynamic_shared, arguments..., slices.data());
      EXPECT_EQ(std::memcmp(slices.data(), whole.data(), output * sizeof(T)), 0) << name;
    }
  }
  const std::string ptx_ = Text();
  Device device_{ptx_};
};

TEST_P(SlicesOfNvcc, GiveTheSame) {
  Compare<int>("ThreeDimensions", {3, 2, 2}, {4, 3, 2}, 0, 12 * 6 * 4);
  std::vector<int> in(10'000);
  std::iota(in.begin(), in.end(), 5);
  SlicedKernel reduce(ptx_, "Reduce", device_);
  unsigned long long total = 0;
  int largest = 0;
  reduce.Launch(2, {5}, {256}, 0, in.data(), 10'000, &total, &largest);
  EXPECT_EQ(total, 10'000ull * 10'009 / 2);
  EXPECT_EQ(largest, 10'004);
  SlicedKernel print(ptx_, "Print", device_);
  testing::internal::CaptureStdout();
  print.Launch(1, {2}, {4}, 0, 42);
  const std::string line = "42 10.50 text z 1099511627776 ff\n";
  EXPECT_EQ(testing::internal::GetCapturedStdout(), line + line);
}

TEST_P(SlicesOfNvcc, ProductsAreTheSame) {
  constexpr int kN = 48;
  std::vector<float> a(kN * kN), whole(kN * kN), slices(kN * kN);
  std::mt19937 random(2);
  for (float& x : a) x = static_cast<float>(random()) * 0x1p-32F;
  const auto sliced = slicing::SlicePtx(ptx_, "MultiplyFloat", [](auto) { return std::nullopt; });
  if (!sliced.ok()) {  // Unoptimised code computes the indices in a function.
    EXPECT_THAT(sliced.status().message(), testing::HasSubstr(slicing::reasons::kFunctionIndex));
    return;
  }
  SlicedKernel kernel(ptx_, "MultiplyFloat", device_);
  EXPECT_WHOLE(device_, Launch("MultiplyFloat", {kN / 16, kN / 16}, {16, 16}, 0, a.data(), a.data(),
                               whole.data(), kN));
  kernel.Launch(2, {kN / 16, kN / 16}, {16, 16}, 0, a.data(), a.data(), slices.data(), kN);
  EXPECT_EQ(slices, whole);
}
INSTANTIATE_TEST_SUITE_P(Targets, SlicesOfNvcc, testing::Values("sm_75", "sm_90", "debug"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Slices, OfRandomKernelsGiveTheSame) {
  const std::uint64_t first = FuzzSeed(1);
  for (std::uint64_t seed = first; seed < first + 10; ++seed) {
    const RandomKernel kernel = MakeRandomKernel(seed);
    const Extent block{kernel.block[0], kernel.block[1], kernel.block[2]};
    Device device(kernel.ptx);
    SlicedKernel sliced(kernel.ptx, "k", device);
    std::vector<std::uint32_t> whole(kernel.output_words), slices(kernel.output_words);
    EXPECT_WHOLE(device, Launch("k", {kernel.grid}, block, 0, kernel.input.data(), whole.data()));
    sliced.Launch(2, {kernel.grid}, block, 0, kernel.input.data(), slices.data());
    ASSERT_EQ(slices, whole) << "seed " << seed << "\n" << kernel.ptx;
  }
}

}  // namespace
}  // namespace cuspan::softgpu
