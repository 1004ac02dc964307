// Tests cvt against its definition in the PTX ISA.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using U64 = std::uint64_t;
using S64 = std::int64_t;
__extension__ typedef __int128 S128;

constexpr double kWideNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Words> IntegerInputs() {
  std::vector<Words> words;
  std::mt19937_64 random(4);
  for (U64 x : {U64{0}, U64{1}, U64{127}, U64{128}, U64{255}, U64{256}, U64{32767}, U64{32768},
                U64{65535}, U64{65536}, U64{0x7fffffff}, U64{0x80000000}, U64{0xffffffff},
                U64{0x100000000}, U64{1} << 63, ~U64{0}, ~U64{127}})
    words.push_back({{x, 0, 0, 0, 0}});
  for (int i = 0; i < 400; ++i) words.push_back({{random() >> (random() % 64), 0, 0, 0, 0}});
  for (int i = 0; i < 100; ++i) words.push_back({{~(random() >> (random() % 64)), 0, 0, 0, 0}});
  return words;
}

template <typename Expected>
void Check(const std::vector<Words>& words, std::string_view body, U64 Results::*result,
           Expected expected) {
  const auto results = Evaluate(body, words);
  for (std::size_t i = 0; i < words.size(); ++i)
    ASSERT_EQ(results[i].*result, expected(words[i].in[0]))
        << body << " of " << std::hex << words[i].in[0];
}

TEST(Convert, IntegersExtendTruncateAndSaturate) {
  const auto words = IntegerInputs();
  Check(words, "cvt.u64.u32 %d0, %r1;", &Results::d,
        [](U64 x) -> U64 { return static_cast<std::uint32_t>(x); });
  Check(words, "cvt.s64.s32 %d0, %r1;", &Results::d,
        [](U64 x) -> U64 { return static_cast<U64>(S64{static_cast<std::int32_t>(x)}); });
  Check(words, "cvt.u32.u64 %r0, %d1;", &Results::r, [](U64 x) -> U64 { return x & 0xffffffff; });
  Check(words, "cvt.u16.u32 %h0, %r1;", &Results::h, [](U64 x) -> U64 { return x & 0xffff; });
  // Eight-bit types are in wider registers, extended.
  Check(words, "cvt.s16.s8 %h0, %h1;", &Results::h,
        [](U64 x) -> U64 { return static_cast<std::uint16_t>(static_cast<std::int8_t>(x)); });
  Check(words, "cvt.u32.u8 %r0, %r1;", &Results::r, [](U64 x) -> U64 { return x & 0xff; });
  Check(words, "cvt.s32.s8 %r0, %r1;", &Results::r,
        [](U64 x) -> U64 { return static_cast<std::uint32_t>(static_cast<std::int8_t>(x)); });
  Check(words, "cvt.s8.s32 %r0, %r1;", &Results::r,
        [](U64 x) -> U64 { return static_cast<std::uint32_t>(static_cast<std::int8_t>(x)); });
  const auto clamp = [](S128 x, S128 low, S128 high) {
    return static_cast<U64>(x < low ? low : x > high ? high : x);
  };
  Check(words, "cvt.sat.u8.s32 %r0, %r1;", &Results::r,
        [&](U64 x) -> U64 { return clamp(static_cast<std::int32_t>(x), 0, 255); });
  Check(words, "cvt.sat.s16.s64 %h0, %d1;", &Results::h,
        [&](U64 x) -> U64 { return clamp(static_cast<S64>(x), -32768, 32767) & 0xffff; });
  Check(words, "cvt.sat.s32.u64 %r0, %d1;", &Results::r,
        [&](U64 x) -> U64 { return clamp(x, 0, INT32_MAX); });
  Check(words, "cvt.sat.u64.s64 %d0, %d1;", &Results::d,
        [&](U64 x) -> U64 { return static_cast<S64>(x) < 0 ? 0 : x; });
  Check(words, "cvt.pack.sat.u8.s32.b32 %r0, %r1, 300, 0;", &Results::r,
        [&](U64 x) -> U64 { return clamp(static_cast<std::int32_t>(x), 0, 255) << 8 | 255; });
}

template <typename To, typename From>
To Rounded(int mode, From from) {
  volatile From value = from;
  std::fesetround(mode);
  volatile To result = static_cast<To>(value);
  std::fesetround(FE_TONEAREST);
  return result;
}

TEST(Convert, IntegersToFloatsInEveryRounding) {
  const auto words = IntegerInputs();
  const struct {
    const char* name;
    int mode;
  } modes[] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (const auto& [name, m] : modes) {
    const int mode = m;
    Check(words, Format("cvt.{}.f32.s32 %f0, %r1;", name), &Results::f,
          [&](U64 x) { return Bits(Rounded<float>(mode, static_cast<std::int32_t>(x))); });
    Check(words, Format("cvt.{}.f32.u32 %f0, %r1;", name), &Results::f,
          [&](U64 x) { return Bits(Rounded<float>(mode, static_cast<std::uint32_t>(x))); });
    Check(words, Format("cvt.{}.f32.s64 %f0, %d1;", name), &Results::f,
          [&](U64 x) { return Bits(Rounded<float>(mode, static_cast<S64>(x))); });
    Check(words, Format("cvt.{}.f64.s64 %g0, %d1;", name), &Results::g,
          [&](U64 x) { return Bits(Rounded<double>(mode, static_cast<S64>(x))); });
    // Unsigned 64-bit values are exact in the x87 format.
    Check(words, Format("cvt.{}.f32.u64 %f0, %d1;", name), &Results::f,
          [&](U64 x) { return Bits(Rounded<float>(mode, static_cast<long double>(x))); });
    Check(words, Format("cvt.{}.f64.u64 %g0, %d1;", name), &Results::g,
          [&](U64 x) { return Bits(Rounded<double>(mode, static_cast<long double>(x))); });
  }
  Check(words, "cvt.rn.f64.s32 %g0, %r1;", &Results::g,
        [](U64 x) { return Bits(double{static_cast<double>(static_cast<std::int32_t>(x))}); });
  Check(words, "cvt.rn.f32.u16 %f0, %h1;", &Results::f,
        [](U64 x) { return Bits(static_cast<float>(x & 0xffff)); });
  Check(words, "cvt.rn.f32.u8 %f0, %r1;", &Results::f,
        [](U64 x) { return Bits(static_cast<float>(x & 0xff)); });
}

std::vector<double> Reals() {
  std::vector<double> reals = {0.0,          -0.0,          0.5,           -0.5,
                               1.5,          2.5,           -2.5,          0.49999999999999994,
                               127.5,        128,           -128.6,        255.4,
                               255.5,        32767.5,       65535.4,       2147483647.0,
                               2147483648.0, -2147483648.0, -2147483649.0, 4294967295.0,
                               4294967296.0, 9.2e18,        9.3e18,        1.8e19,
                               1.9e19,       -1e30,         1e30,          HUGE_VAL,
                               -HUGE_VAL,    kWideNan,      1e-40,         -1e-310};
  std::mt19937_64 random(6);
  for (int i = 0; i < 300; ++i)
    reals.push_back(std::ldexp(static_cast<double>(static_cast<S64>(random())),
                               -static_cast<int>(random() % 70)));
  return reals;
}

// Clamps an integral value to the type; NaN gives `nan`.
template <typename To>
U64 Clamped(double integral, U64 nan) {
  using Limits = std::numeric_limits<To>;
  using Unsigned = std::make_unsigned_t<To>;
  if (std::isnan(integral)) return nan;
  // 2^digits is exact; the largest integer below it need not be.
  if (integral >= std::ldexp(1.0, Limits::digits)) return static_cast<Unsigned>(Limits::max());
  if (integral <= static_cast<double>(Limits::min())) return static_cast<Unsigned>(Limits::min());
  return static_cast<Unsigned>(static_cast<To>(integral));
}

double RoundEven(double x) { return std::nearbyint(x); }

TEST(Convert, FloatsToIntegersRoundAndSaturate) {
  std::vector<Words> doubles, floats;
  for (double x : Reals()) doubles.push_back({{Bits(x), 0, 0, 0, 0}});
  for (double x : Reals()) floats.push_back({{Bits(static_cast<float>(x)), 0, 0, 0, 0}});
  const struct {
    const char* name;
    double (*round)(double);
  } roundings[] = {{"rni", RoundEven},
                   {"rzi", [](double x) { return std::trunc(x); }},
                   {"rmi", [](double x) { return std::floor(x); }},
                   {"rpi", [](double x) { return std::ceil(x); }}};
  for (const auto& [name, r] : roundings) {
    const auto round = r;
    const auto f64 = [&](const char* rest, U64 Results::*result, auto to, U64 nan) {
      Check(doubles, Format("cvt.{}.{}", name, rest), result,
            [&](U64 x) { return Clamped<decltype(to)>(round(AsDouble(x)), nan); });
    };
    const auto f32 = [&](const char* rest, U64 Results::*result, auto to, U64 nan) {
      Check(floats, Format("cvt.{}.{}", name, rest), result,
            [&](U64 x) { return Clamped<decltype(to)>(round(AsFloat(x)), nan); });
    };
    f64("s32.f64 %r0, %g1;", &Results::r, std::int32_t{}, 0x80000000);
    f64("u32.f64 %r0, %g1;", &Results::r, std::uint32_t{}, 0x80000000);
    f64("s64.f64 %d0, %g1;", &Results::d, S64{}, U64{1} << 63);
    f64("u64.f64 %d0, %g1;", &Results::d, U64{}, U64{1} << 63);
    f32("s32.f32 %r0, %f1;", &Results::r, std::int32_t{}, 0);
    f32("u32.f32 %r0, %f1;", &Results::r, std::uint32_t{}, 0);
    f32("s64.f32 %d0, %f1;", &Results::d, S64{}, U64{1} << 63);
    f32("u16.f32 %h0, %f1;", &Results::h, std::uint16_t{}, 0);
    f32("s16.f32 %h0, %f1;", &Results::h, std::int16_t{}, 0);
    f32("u8.f32 %r0, %f1;", &Results::r, std::uint8_t{}, 0);
    Check(floats, Format("cvt.{}.f32.f32 %f0, %f1;", name), &Results::f,
          [&](U64 x) -> U64 { return Bits(static_cast<float>(round(AsFloat(x)))); });
  }
  Check(floats, "cvt.rpi.ftz.s32.f32 %r0, %f1;", &Results::r, [](U64 x) {
    const float value = AsFloat(x);
    return Clamped<std::int32_t>(
        std::fpclassify(value) == FP_SUBNORMAL ? 0 : std::ceil(double{value}), 0);
  });
}

TEST(Convert, FloatsToFloats) {
  std::vector<Words> doubles, floats;
  for (double x : Reals()) {
    if (std::isnan(x)) continue;
    doubles.push_back({{Bits(x * 1e-20), 0, 0, 0, 0}});
    doubles.push_back({{Bits(x), 0, 0, 0, 0}});
    doubles.push_back({{Bits(std::ldexp(x, -1060)), 0, 0, 0, 0}});
    floats.push_back({{Bits(static_cast<float>(x)), 0, 0, 0, 0}});
  }
  for (const auto& [name, mode] : {std::pair{"rn", FE_TONEAREST},
                                   {"rz", FE_TOWARDZERO},
                                   {"rm", FE_DOWNWARD},
                                   {"rp", FE_UPWARD}})
    Check(doubles, Format("cvt.{}.f32.f64 %f0, %g1;", name), &Results::f,
          [mode = mode](U64 x) { return Bits(Rounded<float>(mode, AsDouble(x))); });
  Check(floats, "cvt.f64.f32 %g0, %f1;", &Results::g,
        [](U64 x) { return Bits(double{AsFloat(x)}); });
  Check(floats, "cvt.sat.f32.f32 %f0, %f1;", &Results::f, [](U64 x) {
    const float value = AsFloat(x);
    return Bits(value > 0 ? std::min(value, 1.0F) : 0.0F);
  });
  // A NaN saturates to zero.
  EXPECT_EQ(EvaluateOne("cvt.sat.f32.f32 %f0, %f1;", {{0x7fc00000, 0, 0, 0, 0}}).f, 0U);
}

TEST(Convert, HalvesRoundToNearestEven) {
  // Value, pattern: ties, subnormals, overflow.
  const std::pair<float, U64> f16[] = {
      {1.0F, 0x3c00},     {-2.0F, 0xc000},           {65504.0F, 0x7bff},        {65519.9F, 0x7bff},
      {65520.0F, 0x7c00}, {1.0F + 0x1p-11F, 0x3c00}, {1.0F + 0x3p-11F, 0x3c02}, {0x1p-24F, 0x0001},
      {0x1p-25F, 0x0000}, {0x1.8p-24F, 0x0002},      {0x1p-14F, 0x0400},        {HUGE_VALF, 0x7c00},
      {-0.0F, 0x8000}};
  for (const auto& [value, pattern] : f16) {
    EXPECT_EQ(EvaluateOne("cvt.rn.f16.f32 %h0, %f1;", {{Bits(value), 0, 0, 0, 0}}).h, pattern)
        << value;
  }
  for (U64 pattern : {0x0001U, 0x3c00U, 0x7bffU, 0x8400U, 0xfc00U}) {
    const auto result =
        EvaluateOne("cvt.f32.f16 %f6, %h1; cvt.rn.f16.f32 %h0, %f6; cvt.f64.f16 %g0, %h1;",
                    {{pattern, 0, 0, 0, 0}});
    EXPECT_EQ(result.h, pattern);
  }
  // Rounded once from f64: 1 + 2^-11 + 2^-40 is above the tie. Rounding to f32 first would make it
  // a tie.
  EXPECT_EQ(EvaluateOne("cvt.rn.f16.f64 %h0, %g1;", {{Bits(1 + 0x1p-11 + 0x1p-40), 0, 0, 0, 0}}).h,
            0x3c01U);
  EXPECT_EQ(EvaluateOne("cvt.rz.f16.f32 %h0, %f1;", {{Bits(65520.0F), 0, 0, 0, 0}}).h, 0x7bffU);
  const std::pair<float, U64> bf16[] = {{1.0F, 0x3f80},
                                        {1.0F + 0x1p-8F, 0x3f80},
                                        {1.0F + 0x3p-8F, 0x3f82},
                                        {3.4e38F, 0x7f80},
                                        {-0.0F, 0x8000}};
  for (const auto& [value, pattern] : bf16) {
    EXPECT_EQ(EvaluateOne("cvt.rn.bf16.f32 %h0, %f1;", {{Bits(value), 0, 0, 0, 0}}).h, pattern)
        << value;
  }
  EXPECT_EQ(EvaluateOne("cvt.rz.bf16.f32 %h0, %f1;", {{Bits(1.0F + 0xfp-10F), 0, 0, 0, 0}}).h,
            0x3f81U);
  EXPECT_EQ(EvaluateOne("cvt.f32.bf16 %f0, %h1;", {{0x4049, 0, 0, 0, 0}}).f, 0x40490000U);
  EXPECT_EQ(EvaluateOne("cvt.rn.f16x2.f32 %r0, %f1, %f2;", {{Bits(1.0F), Bits(-2.0F), 0, 0, 0}}).r,
            0x3c00c000U);
  EXPECT_EQ(
      EvaluateOne("cvt.rn.relu.bf16x2.f32 %r0, %f1, %f2;", {{Bits(1.0F), Bits(-2.0F), 0, 0, 0}}).r,
      0x3f800000U);
  EXPECT_EQ(EvaluateOne("cvt.rn.f16.s32 %h0, %r1;", {{2049, 0, 0, 0, 0}}).h, 0x6800U);
  EXPECT_EQ(EvaluateOne("cvt.rzi.s32.f16 %r0, %h1;", {{0xc100, 0, 0, 0, 0}}).r, 0xfffffffeU);
  // Ties away from zero.
  EXPECT_EQ(EvaluateOne("cvt.rna.tf32.f32 %r0, %f1;", {{0x3f801000, 0, 0, 0, 0}}).r, 0x3f802000U);
}

TEST(Convert, EightBitFloats) {
  // Value, pattern: normal, tie to even, subnormal, saturated.
  const std::pair<float, U64> e4m3[] = {
      {1.0F, 0x38}, {-1.5F, 0xbc},   {1.0625F, 0x38},  {1.1875F, 0x3a}, {448, 0x7e},
      {1e9F, 0x7e}, {0x1p-9F, 0x01}, {0x1p-10F, 0x00}, {0x1p-6F, 0x08}, {-0.0F, 0x80}};
  for (const auto& [value, pattern] : e4m3) {
    const auto result = EvaluateOne("cvt.rn.satfinite.e4m3x2.f32 %h0, %f1, %f2;",
                                    {{Bits(value), Bits(2.0F), 0, 0, 0}});
    EXPECT_EQ(result.h, pattern << 8 | 0x40) << value;
  }
  const std::pair<float, U64> e5m2[] = {
      {1.0F, 0x3c}, {1e9F, 0x7b}, {0x1p-16F, 0x01}, {1.125F, 0x3c}, {1.375F, 0x3e}};
  for (const auto& [value, pattern] : e5m2) {
    const auto result =
        EvaluateOne("cvt.rn.satfinite.e5m2x2.f32 %h0, %f2, %f1;", {{Bits(value), 0, 0, 0, 0}});
    EXPECT_EQ(result.h, pattern) << value;
  }
  // Each NaN becomes the canonical one of f16. (PTX ISA, "cvt")
  for (const U64 pattern : {0x7f7fU, 0xffffU}) {
    for (const char* types : {"f16x2.e4m3x2", "f16x2.e5m2x2", "relu.f16x2.e4m3x2"}) {
      const auto result =
          EvaluateOne(fmt::format("cvt.rn.{} %r0, %h1;", types), {{pattern, 0, 0, 0, 0}});
      EXPECT_EQ(result.r, 0x7fff7fffU) << types;
    }
  }
  // Every finite pattern is unchanged after conversion to f16 and back.
  for (const char* format : {"e4m3x2", "e5m2x2"}) {
    std::vector<Words> words;
    for (U64 i = 0; i < 128; ++i)
      if ((i & 0x7f) != 0x7f && (format[1] == '4' || i < 0x7c))
        words.push_back({{i << 8 | i | 0x80, 0, 0, 0, 0}});
    const auto results = Evaluate(
        fmt::format("cvt.rn.f16x2.{0} %r6, %h1; cvt.rn.satfinite.{0}.f16x2 %h0, %r6;", format),
        words);
    for (std::size_t i = 0; i < words.size(); ++i)
      EXPECT_EQ(results[i].h, words[i].in[0]) << format;
  }
}

}  // namespace
}  // namespace cuspan::softgpu
