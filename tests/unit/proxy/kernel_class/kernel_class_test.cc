// Tests the classes of kernels with known bottlenecks.
#include "proxy/kernel_class/kernel_class.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/unit/fuzz_seed.h"

namespace cuspan::kernel_class {
namespace {

using scheduling::Bottleneck;

// Rates as reported by the driver.
constexpr DeviceRates kH100{132, 90, 1'980'000, 2'619'000, 5120};
constexpr DeviceRates kA100{108, 80, 1'410'000, 1'593'000, 5120};
constexpr DeviceRates kRtx4090{128, 89, 2'520'000, 10'501'000, 384};

std::string KernelsFor(const std::string& target) {
  std::ifstream file(std::string(CUSPAN_TEST_PTX_FOLDER) + "/kernels_" + target + ".ptx");
  std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(text.empty()) << target;
  return text;
}

// The comments are measurements of ncu on an H100 (percentages of the peak of the SM and of DRAM).
constexpr const char* kByMemory[] = {
    "copy",                   // 7, 71
    "copy_bytes_by_vectors",  // 12, 89
    "triad",                  // 19, 92
    "reduction",              // 11, 67
    "transpose",              // 19, 84
    "histogram",              // 13, 66
    "spmv",                   // 1, 71
    "spmv_by_warps",          // 7, 66
    "stencil",                // 33, 62
    "gather",                 // 5, 63
    "sines",                  // 38, 68
    "gelu",                   // 30, 89
    "bias_halves",            // 35, 70
    "softmax",                // 27, 63
    "matrix_vector",          // 20, 65
};
constexpr const char* kByArithmetic[] = {
    "fma_loop",                // 98, 0
    "fma_loop_doubles",        // 97, 0
    "fma_loop_halves",         // 67, 0
    "n_body",                  // 77, 0
    "n_body_direct",           // 37, 0
    "n_body_by_calls",         // 55, 0
    "matrix_product",          // 73, 30
    "matrix_product_blocked",  // 53, 10
    "matrix_product_naive",    // 63, 20
    "matrix_product_tensor",   // 37, 3
    "mandelbrot",              // 95, 1
    "hash",                    // 96, 7
    "primes",                  // 79, 0
    "monte_carlo",             // 88, 0
    "convolution",             // 60, 9
    "bitonic_sort",            // 80, 8
};

class ClassesOfNvcc : public testing::TestWithParam<const char*> {
 protected:
  Bottleneck ClassOn(const DeviceRates& rates, const char* kernel) const {
    const Result<KernelMix> mix = MixOf(text_, kernel);
    EXPECT_TRUE(mix.ok()) << mix.status().message();
    return mix.ok() ? ClassOf(*mix, rates) : Bottleneck::kUnknown;
  }

  const std::string text_ = KernelsFor(GetParam());
};

TEST_P(ClassesOfNvcc, AreWhatIsKnown) {
  for (const DeviceRates& rates : {kH100, kA100}) {
    for (const char* kernel : kByMemory)
      EXPECT_EQ(ClassOn(rates, kernel), Bottleneck::kMemory) << kernel << " " << rates.capability;
    for (const char* kernel : kByArithmetic)
      EXPECT_EQ(ClassOn(rates, kernel), Bottleneck::kCompute) << kernel << " " << rates.capability;
  }
}

// A consumer GPU has a quarter of the bandwidth for each SM, and few FP64 units.
TEST_P(ClassesOfNvcc, DependOnTheDevice) {
  EXPECT_EQ(ClassOn(kH100, "black_scholes"), Bottleneck::kCompute);
  EXPECT_EQ(ClassOn(kRtx4090, "black_scholes"), Bottleneck::kMemory);
  for (const char* kernel : kByMemory)
    EXPECT_EQ(ClassOn(kRtx4090, kernel), Bottleneck::kMemory) << kernel;
  for (const char* kernel : {"fma_loop", "n_body", "matrix_product", "hash"})
    EXPECT_EQ(ClassOn(kRtx4090, kernel), Bottleneck::kCompute) << kernel;
}

INSTANTIATE_TEST_SUITE_P(Targets, ClassesOfNvcc, testing::Values("sm_75", "sm_80", "sm_90"),
                         [](const auto& target) { return std::string(target.param); });

// --- Rates.

TEST(ClassOfTest, ComparesTimes) {
  KernelMix mix;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kUnknown) << "it does nothing";
  // An SM of an H100 does 128 multiply-adds in the time of 11.5 bytes.
  mix.bytes = 11.5;
  mix.fp32 = 128;
  const UnitTimes times = TimesOf(mix, kH100);
  EXPECT_NEAR(times.arithmetic, 1, 1e-9);
  EXPECT_NEAR(times.memory, 1, 0.01);
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kUnknown);
  mix.bytes *= 2;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kMemory);
  mix.fp32 *= 4;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kCompute);
}

TEST(ClassOfTest, EachUnitMayBeTheBusiest) {
  const auto time = [](auto set) {
    KernelMix mix;
    set(mix);
    return TimesOf(mix, kH100).arithmetic;
  };
  EXPECT_NEAR(time([](KernelMix& mix) { mix.fp64 = 64; }), 1, 1e-9);
  EXPECT_NEAR(time([](KernelMix& mix) { mix.fp16 = 256; }), 1, 1e-9);
  EXPECT_NEAR(time([](KernelMix& mix) { mix.special = 16; }), 1, 1e-9);
  EXPECT_NEAR(time([](KernelMix& mix) { mix.tensor = 4096; }), 1, 1e-9);
  EXPECT_NEAR(time([](KernelMix& mix) { mix.accesses = 32; }), 1, 1e-9);
  EXPECT_NEAR(time([](KernelMix& mix) { mix.integer = 64, mix.other = 64; }), 1, 1e-9);
}

TEST(ClassOfTest, WhatIsNotKnownIsSaid) {
  KernelMix mix;
  mix.bytes = 1000;
  ASSERT_EQ(ClassOf(mix, kH100), Bottleneck::kMemory);
  for (const auto& rates :
       {DeviceRates{}, DeviceRates{0, 90, 1'980'000, 2'619'000, 5120},
        DeviceRates{132, 90, 0, 2'619'000, 5120}, DeviceRates{132, 90, 1'980'000, 0, 5120},
        DeviceRates{132, 90, 1'980'000, 2'619'000, 0}})
    EXPECT_EQ(ClassOf(mix, rates), Bottleneck::kUnknown);
  mix.unknown_work = 1;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kUnknown);
  // Copies of unknown size can only add bytes.
  mix = {};
  mix.tensor = 1'000'000;
  mix.bytes = 100;
  ASSERT_EQ(ClassOf(mix, kH100), Bottleneck::kCompute);
  mix.unknown_copies = 1;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kCompute);
  mix.unknown_copies = 100;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kUnknown);
  mix.bytes = 100'000;
  EXPECT_EQ(ClassOf(mix, kH100), Bottleneck::kMemory);
}

TEST(ClassOfTest, NoRateIsZero) {
  for (const std::uint32_t capability :
       {0U, 50U, 60U, 61U, 70U, 72U, 75U, 80U, 86U, 87U, 89U, 90U, 100U, 103U, 110U, 120U, 999U}) {
    const UnitRates rates = RatesOf(capability);
    for (const double rate : {rates.fp32, rates.fp64, rates.fp16, rates.special})
      EXPECT_GT(rate, 0) << capability;
    EXPECT_EQ(rates.tensor > 0, capability >= 70) << capability;
  }
}

// --- Damaged text

TEST(MixOfTest, DamagedTextGivesAnErrorOrAMix) {
  const std::string whole = KernelsFor("sm_80");
  // One kernel at a time, so each change is in or near the text read.
  for (const char* kernel : {"histogram", "sines", "matrix_product_tensor", "n_body_by_calls"}) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(FuzzSeed(1)));
    const std::size_t at = whole.find(std::string(".visible .entry ") + kernel);
    ASSERT_NE(at, std::string::npos);
    const std::size_t end = whole.find(".visible .entry ", at + 1);
    const std::string text = whole.substr(0, whole.find(".visible .entry ")) +
                             whole.substr(at, end == std::string::npos ? end : end - at);
    for (int i = 0; i < 300; ++i) {
      std::string damaged = text;
      for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
        const std::size_t where = random() % damaged.size();
        switch (random() % 3) {
          case 0:
            damaged[where] = static_cast<char>(random());
            break;
          case 1:
            damaged.erase(where, random() % 20);
            break;
          default:
            damaged.insert(where, damaged.substr(random() % damaged.size(), random() % 40));
        }
      }
      if (const Result<KernelMix> mix = MixOf(damaged, kernel); mix.ok()) ClassOf(*mix, kH100);
    }
    for (std::size_t length = 0; length < text.size(); length += 1 + text.size() / 100) {
      const Result<KernelMix> mix = MixOf(std::string_view(text).substr(0, length), kernel);
      EXPECT_FALSE(mix.ok()) << length;
    }
  }
}

}  // namespace
}  // namespace cuspan::kernel_class
