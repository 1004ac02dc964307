// Random kernels give the same bits in code for threads, optimised or not, and in code for warps.
// CUSPAN_RANDOM_KERNELS is the number of kernels, and CUSPAN_RANDOM_FIRST the first seed.
// CUSPAN_RANDOM_JSON is a file for kernels and results, one JSON object per line.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/unit/fuzz_seed.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"
#include "tests/unit/proxy/softgpu/compiler/random_kernel.h"

namespace cuspan::softgpu {
namespace {

std::vector<std::uint32_t> RunForm(const RandomKernel& kernel, ExecutionModel model,
                                   CodeTier tier) {
  ProgramOptions options;
  options.model = model;
  options.tier = tier;
  Device device(kernel.ptx, options);
  std::vector<std::uint32_t> output(kernel.output_words, 0);
  const int error =
      device.Launch("k", {kernel.grid}, {kernel.block[0], kernel.block[1], kernel.block[2]}, 0,
                    kernel.input.data(), output.data());
  EXPECT_EQ(error, CUDA_SUCCESS) << device.message();
  return output;
}

// The kernels are tested in parts, since compiling all takes minutes.
constexpr std::uint64_t kParts = 20;
class RandomKernels : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomKernels, GiveTheSameInAllForms) {
  const std::uint64_t first = FuzzNumber("CUSPAN_RANDOM_FIRST", 1);
  const std::uint64_t count = FuzzNumber("CUSPAN_RANDOM_KERNELS", 100);
  const std::uint64_t part = GetParam();
  std::ofstream json;
  if (const char* const path = std::getenv("CUSPAN_RANDOM_JSON"); path != nullptr)
    json.open(path, part == 0 ? std::ios::trunc : std::ios::app);
  const std::uint64_t end = first + count * (part + 1) / kParts;
  for (std::uint64_t seed = first + count * part / kParts; seed < end; ++seed) {
    const RandomKernel kernel = MakeRandomKernel(seed);
    const auto threads = RunForm(kernel, ExecutionModel::kThread, CodeTier::kLast);
    const auto warps = RunForm(kernel, ExecutionModel::kVector, CodeTier::kLast);
    const auto quick = RunForm(kernel, ExecutionModel::kAuto, CodeTier::kFirst);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << kernel.ptx;
    ASSERT_EQ(threads, warps) << "seed " << seed << "\n" << kernel.ptx;
    ASSERT_EQ(threads, quick) << "seed " << seed << "\n" << kernel.ptx;
    if (json.is_open()) json << RandomKernelJson(seed, kernel, threads) << "\n";
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, RandomKernels, ::testing::Range(std::uint64_t{0}, kParts));

}  // namespace
}  // namespace cuspan::softgpu
