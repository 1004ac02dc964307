// Runs whole kernels, compiled by nvcc for several targets, and compares with the same computation
// on the CPU.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

class Nvcc : public testing::TestWithParam<const char*> {
 protected:
  static std::string Text(const std::string& target) {
    std::ifstream file(Format("{}/kernels_{}.ptx", CUSPAN_TEST_PTX_FOLDER, target));
    EXPECT_TRUE(file.good());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  Device device_{Text(GetParam())};
};

#define EXPECT_RUNS(launch) EXPECT_EQ(launch, CUDA_SUCCESS) << device_.message()

TEST_P(Nvcc, EveryKernelCompiles) {
  for (const auto& variable : device_.program().variables()) EXPECT_FALSE(variable.name.empty());
  for (const auto& name : device_.program().kernel_names()) {
    const auto entry = device_.program().Compile(name);
    EXPECT_TRUE(entry.ok()) << entry.status().message();
  }
}

TEST_P(Nvcc, OnlyKernelsThatMaySuspendNeedFibers) {
  const auto needs = [&](const char* kernel) {
    return (*device_.program().Kernel(kernel))->needs_fibers;
  };
  for (const char* kernel : {"VectorAdd", "UseVariables", "StructArguments", "Recursion",
                             "Pointers", "Doubles", "Print", "Switch"})
    EXPECT_FALSE(needs(kernel)) << kernel;
  for (const char* kernel : {"MultiplyFloat", "Fft", "Reduce", "WarpFunctions", "Flag"})
    EXPECT_TRUE(needs(kernel)) << kernel;
  if (std::string_view(GetParam()) == "debug")
    return;  // Atomics are calls there, and are not analysed.
  EXPECT_FALSE(needs("AtomicFunctions"));
  EXPECT_TRUE(needs("Lock"));
}

TEST_P(Nvcc, VectorAdd) {
  std::vector<float> a(1000), b(1000), c(1000, -1);
  std::iota(a.begin(), a.end(), 0.5F);
  std::iota(b.begin(), b.end(), 100.25F);
  EXPECT_RUNS(device_.Launch("VectorAdd", {8}, {128}, 0, a.data(), b.data(), c.data(), 999));
  for (int i = 0; i < 999; ++i) EXPECT_EQ(c[i], a[i] + b[i]);
  EXPECT_EQ(c[999], -1);
}

// nvcc contracts products and sums to fused operations, unless optimisation is off.
template <typename T>
void CheckProduct(const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& c, int n,
                  bool fused) {
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int k = 0; k < n; ++k) {
        const T x = a[i * n + k], y = b[k * n + j];
        sum = fused ? std::fma(x, y, sum) : x * y + sum;
      }
      ASSERT_EQ(c[i * n + j], sum) << i << ' ' << j;
    }
  }
}

TEST_P(Nvcc, MatrixProducts) {
  constexpr int kN = 64;
  const bool fused = std::string_view(GetParam()) != "debug";
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> a(kN * kN), b(kN * kN), c(kN * kN);
  for (auto* m : {&a, &b})
    for (auto& x : *m) x = uniform(random);
  EXPECT_RUNS(device_.Launch("MultiplyDouble", {kN / 8, kN / 8}, {8, 8}, 0, a.data(), b.data(),
                             c.data(), kN));
  CheckProduct(a, b, c, kN, fused);
  std::vector<float> af(a.begin(), a.end()), bf(b.begin(), b.end()), cf(kN * kN);
  EXPECT_RUNS(device_.Launch("MultiplyFloat", {kN / 16, kN / 16}, {16, 16}, 0, af.data(), bf.data(),
                             cf.data(), kN));
  CheckProduct(af, bf, cf, kN, fused);
}

TEST_P(Nvcc, Fft) {
  constexpr int kLog = 8, kPoints = 1 << kLog, kSignals = 3;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::complex<float>> in(kPoints * kSignals), out(kPoints * kSignals);
  for (auto& x : in) x = {uniform(random), uniform(random)};
  EXPECT_RUNS(
      device_.Launch("Fft", {kSignals}, {kPoints / 2}, kPoints * 8, in.data(), out.data(), kLog));
  for (int s = 0; s < kSignals; ++s) {
    for (int k = 0; k < kPoints; ++k) {
      std::complex<double> sum = 0;
      for (int i = 0; i < kPoints; ++i)
        sum += std::complex<double>(in[s * kPoints + i]) *
               std::polar(1.0, -2 * M_PI * ((i * k) % kPoints) / kPoints);
      EXPECT_NEAR(std::abs(sum - std::complex<double>(out[s * kPoints + k])), 0, 1e-4);
    }
  }
}

TEST_P(Nvcc, Reduction) {
  std::vector<int> in(10000);
  std::mt19937 random(5);
  for (auto& x : in) x = static_cast<int>(random());
  unsigned long long total = 0;
  int largest = INT32_MIN;
  EXPECT_RUNS(device_.Launch("Reduce", {5}, {256}, 0, in.data(), 10000, &total, &largest));
  EXPECT_EQ(static_cast<long long>(total), std::accumulate(in.begin(), in.end(), 0LL));
  EXPECT_EQ(largest, *std::max_element(in.begin(), in.end()));
}

TEST_P(Nvcc, Variables) {
  float out[8];
  EXPECT_RUNS(device_.Launch("UseVariables", {1}, {8}, 0, &out[0]));
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
  EXPECT_EQ(*static_cast<int*>(device_.Variable("counter")), 13);
}

struct Shape {
  char tag;
  double scale;
  int offsets[3];
  float weights[2];
};

TEST_P(Nvcc, StructsByValue) {
  double out[5];
  const Shape shape{3, 1.5, {10, 20, 30}, {0.5F, 0.25F}};
  EXPECT_RUNS(device_.Launch("StructArguments", {1}, {1}, 0, shape, 4, &out[0]));
  EXPECT_THAT(out, testing::ElementsAre(6, 10, 24, 30, 3.25));
}

TEST_P(Nvcc, ThreeDimensions) {
  std::vector<int> out(12 * 6 * 4);
  EXPECT_RUNS(device_.Launch("ThreeDimensions", {3, 2, 2}, {4, 3, 2}, 0, out.data()));
  for (int z = 0; z < 4; ++z)
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 12; ++x) EXPECT_EQ(out[(z * 6 + y) * 12 + x], x + 100 * y + 10000 * z);
}

TEST_P(Nvcc, CallsDirectIndirectAndRecursive) {
  unsigned fibonacci[12];
  EXPECT_RUNS(device_.Launch("Recursion", {1}, {12}, 0, &fibonacci[0]));
  EXPECT_THAT(fibonacci, testing::ElementsAre(0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89));
  int out[8];
  EXPECT_RUNS(device_.Launch("Pointers", {1}, {8}, 0, &out[0]));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(out[i], (i % 2 == 0 ? 2 * i : i * i) + 1000 * (i % 3 == 0 ? 2 : 6) * i) << i;
}

TEST_P(Nvcc, PrintsAndAsserts) {
  testing::internal::CaptureStdout();
  EXPECT_RUNS(device_.Launch("Print", {1}, {4}, 0, 42));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "42 10.50 text z 1099511627776 ff\n");
  EXPECT_RUNS(device_.Launch("Assert", {1}, {4}, 0, 4));
  testing::internal::CaptureStderr();
  EXPECT_EQ(device_.Launch("Assert", {1}, {4}, 0, 3), CUDA_ERROR_ASSERT);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("static_cast<int>(threadIdx.x) < limit"));
}

TEST_P(Nvcc, DoubleFunctions) {
  std::vector<double> in = {0.1, 1, 2.5, 10, 77.7, 1234.5, 1e5, 3e-4}, out(8 * in.size());
  EXPECT_RUNS(device_.Launch("Doubles", {1}, {static_cast<std::uint32_t>(in.size())}, 0, in.data(),
                             out.data()));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double x = in[i];
    const double* const r = &out[8 * i];
    EXPECT_EQ(r[0], std::sqrt(x));
    if (x < 7000) {
      EXPECT_NEAR(r[1] / std::exp(x / 10), 1, 1e-14);
    }
    EXPECT_NEAR(r[2], std::log(x), 1e-14 * (1 + std::abs(std::log(x))));
    EXPECT_NEAR(r[3], std::sin(x), 1e-15);
    EXPECT_NEAR(r[4] / std::pow(x, 1.5), 1, 1e-14);
    EXPECT_EQ(r[5], x / 3);
    EXPECT_EQ(r[6], std::fma(x, x, -1.0));
    EXPECT_EQ(r[7], std::floor(x) + std::rint(x / 3));
  }
}

TEST_P(Nvcc, FloatFunctions) {
  std::vector<float> in = {0.1F, 1, 2.5F, 10, 77.7F, 300.5F, 2e5F, 3e-4F}, out(10 * in.size());
  EXPECT_RUNS(device_.Launch("Floats", {1}, {static_cast<std::uint32_t>(in.size())}, 0, in.data(),
                             out.data()));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double x = in[i];
    const float* const r = &out[10 * i];
    EXPECT_EQ(r[0], std::sqrt(in[i]));
    if (x < 800) {
      EXPECT_NEAR(r[1] / std::exp(x / 10), 1, 1e-6);
    }
    EXPECT_NEAR(r[2], std::log(x), 1e-6 * (1 + std::abs(std::log(x))));
    EXPECT_NEAR(r[3], std::sin(x), 2e-7);
    EXPECT_NEAR(r[4] / std::pow(x, 1.5), 1, 1e-6);
    EXPECT_EQ(r[5], in[i] / 3);
    EXPECT_NEAR(r[6] / std::tan(x), 1, 1e-5);
    EXPECT_NEAR(r[7] * std::sqrt(x), 1, 1e-6);
    EXPECT_NEAR(r[8] / std::cbrt(x), 1, 1e-6);
    EXPECT_NEAR(r[9], std::erf(x / 10), 1e-6);
  }
}

TEST_P(Nvcc, LongIntegers) {
  std::mt19937_64 random(11);
  std::vector<long long> in(33), out(6 * 32);
  for (auto& x : in) x = static_cast<long long>(random() >> (random() % 60));
  EXPECT_RUNS(device_.Launch("LongIntegers", {1}, {32}, 0, in.data(), out.data()));
  for (int i = 0; i < 32; ++i) {
    const long long x = in[i], y = in[i + 1] | 1;
    EXPECT_EQ(out[6 * i], x / y);
    EXPECT_EQ(out[6 * i + 1], x % y);
    EXPECT_EQ(static_cast<std::uint64_t>(out[6 * i + 2]),
              static_cast<std::uint64_t>(x) / static_cast<std::uint64_t>(y));
    __extension__ using Wide = __int128;
    EXPECT_EQ(out[6 * i + 3], static_cast<long long>(Wide{x} * y >> 64));
    EXPECT_EQ(out[6 * i + 4], __builtin_popcountll(x) + __builtin_clzll(y) + __builtin_ffsll(x));
    EXPECT_EQ(out[6 * i + 5], x >> (y & 63));
  }
}

TEST_P(Nvcc, Halves) {
  // Results of these numbers need no rounding.
  std::vector<float> in = {1, 2, 0.5F, -3, 12, 0.25F, 7, -1, 2}, out(6 * 8);
  EXPECT_RUNS(device_.Launch("Halves", {1}, {8}, 0, in.data(), out.data()));
  for (int i = 0; i < 8; ++i) {
    const float x = in[i], y = in[i + 1];
    EXPECT_EQ(out[6 * i], x + y);
    EXPECT_EQ(out[6 * i + 1], x * y);
    EXPECT_EQ(out[6 * i + 2], x * y + x);
    EXPECT_EQ(out[6 * i + 3], x * x + x);
    EXPECT_EQ(out[6 * i + 4], y * y + y);
    EXPECT_EQ(out[6 * i + 5], x * x);
  }
}

TEST_P(Nvcc, DeviceHeap) {
  int out[64];
  EXPECT_RUNS(device_.Launch("Heap", {1}, {64}, 0, &out[0]));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], 2 * i + 3);
}

TEST_P(Nvcc, WarpFunctions) {
  std::vector<unsigned> out(256);
  EXPECT_RUNS(device_.Launch("WarpFunctions", {1}, {32}, 0, out.data()));
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], 0x49249249U);
    EXPECT_EQ(out[32 + lane], ((lane & ~7U) | ((lane + 1) & 7)) * 10);
    EXPECT_EQ(out[64 + lane], 0xfU << (lane & ~3U));
    EXPECT_EQ(out[96 + lane], 1U);
    EXPECT_EQ(out[128 + lane], lane < 10 ? 10U : 0U);
    if (lane % 8 == 0) {
      EXPECT_EQ(out[160 + lane], 8 * lane + 28);
    }
    EXPECT_EQ(out[192 + lane], 116U);
    if (lane >= 16) {
      EXPECT_EQ(out[224 + lane], lane == 16 ? 16 : lane - 1);
    }
  }
}

TEST_P(Nvcc, ThreadsThatWaitForOthersLetThemRun) {
  int value = 0;
  EXPECT_RUNS(device_.Launch("Lock", {4}, {64}, 0, &value));
  EXPECT_EQ(value, 256);
  int done = 0;
  EXPECT_RUNS(device_.Launch("Flag", {1}, {64}, 0, &done));
  EXPECT_EQ(done, 1);
}

TEST_P(Nvcc, Atomics) {
  float f = 0;
  double d = 0;
  unsigned u[3] = {0, 1000, 0};
  unsigned long long l[2] = {5000, 1};
  EXPECT_RUNS(device_.Launch("AtomicFunctions", {4}, {64}, 0, &f, &d, &u[0], &l[0]));
  EXPECT_EQ(f, 384);
  EXPECT_EQ(d, 64);
  EXPECT_THAT(u, testing::ElementsAre(56, 488, 0));
  EXPECT_THAT(l, testing::ElementsAre(1000, 769));
}

TEST_P(Nvcc, Switch) {
  int in[9] = {0, 1, 2, 3, 4, 5, 6, 7, 0}, out[8];
  EXPECT_RUNS(device_.Launch("Switch", {1}, {8}, 0, &in[0], &out[0]));
  EXPECT_THAT(out, testing::ElementsAre(5, 3, -7, 2, 11, 32, 66, -1));
}

TEST_P(Nvcc, BarrierObjectsAndGroups) {
  std::vector<int> in(192), out(192, -1);
  std::iota(in.begin(), in.end(), 7);
  EXPECT_RUNS(device_.Launch("BarrierObject", {1}, {64}, 0, in.data(), out.data()));
  for (int i = 0; i < 192; ++i) EXPECT_EQ(out[i], in[(i | 63) - i % 64]) << i;
  EXPECT_RUNS(device_.Launch("Groups", {1}, {64}, 0, in.data(), out.data()));
  for (int i = 0; i < 64; ++i) {
    const int first = i / 32 * 32;
    int want = std::accumulate(&in[first], &in[first] + 32, 0);
    // Multiples of three: eleven from 0 to 30, eleven from 33 to 63.
    if (i % 3 == 0) want += 11000 + (i < 32 ? 0 : 3300000);
    EXPECT_EQ(out[i], want) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Nvcc, testing::Values("sm_75", "sm_80", "sm_90", "debug"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace cuspan::softgpu
