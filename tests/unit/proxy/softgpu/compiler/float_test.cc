// Tests floating-point instructions against their definitions in the PTX ISA.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr float kCorners[] = {
    0.0F, -0.0F, 1.0F, -1.0F, 1.5F,     3.0F, -3.0F,           1e-40F, -1e-40F,    kTiny,
    kInf, -kInf, kNan, 1e38F, -3.4e38F, 0.1F, 1.17549435e-38F, 2.5F,   16777217.0F};

struct Floats {
  float a, b, c;
};

std::vector<Floats> FloatInputs() {
  std::vector<Floats> inputs;
  std::mt19937 random(2);
  for (float a : kCorners)
    for (float b : kCorners) inputs.push_back({a, b, kCorners[random() % std::size(kCorners)]});
  for (int i = 0; i < 500; ++i)
    inputs.push_back({AsFloat(random()), AsFloat(random()), AsFloat(random())});
  std::uniform_real_distribution<float> uniform(-10, 10);
  for (int i = 0; i < 500; ++i)
    inputs.push_back({uniform(random), uniform(random), uniform(random)});
  return inputs;
}

// All NaNs are equal; other values must agree in every bit.
bool Same(float x, float y) { return (std::isnan(x) && std::isnan(y)) || Bits(x) == Bits(y); }
bool Same(double x, double y) { return (std::isnan(x) && std::isnan(y)) || Bits(x) == Bits(y); }

template <typename Expected>
void CheckF32(std::string_view body, Expected expected) {
  const auto inputs = FloatInputs();
  std::vector<Words> words;
  for (const auto& in : inputs) words.push_back({{Bits(in.a), Bits(in.b), Bits(in.c), 0, 0}});
  const auto results = Evaluate(body, words);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& in = inputs[i];
    const float want = expected(in.a, in.b, in.c);
    ASSERT_TRUE(Same(AsFloat(results[i].f), want))
        << body << " a=" << in.a << " b=" << in.b << " c=" << in.c << ": " << AsFloat(results[i].f)
        << ", not " << want;
  }
}
template <typename Expected>
void CheckF64(std::string_view body, Expected expected) {
  const auto inputs = FloatInputs();
  std::vector<Words> words;
  for (const auto& in : inputs)
    words.push_back({{Bits(double{in.a}), Bits(double{in.b} / 3), Bits(double{in.c} * 7), 0, 0}});
  const auto results = Evaluate(body, words);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double a = AsDouble(words[i].in[0]), b = AsDouble(words[i].in[1]),
                 c = AsDouble(words[i].in[2]);
    const double want = expected(a, b, c);
    ASSERT_TRUE(Same(AsDouble(results[i].g), want)) << body << ' ' << a << ' ' << b << ' ' << c;
  }
}

#define F32(body, expression)                                     \
  CheckF32(body,                                                  \
           []([[maybe_unused]] float a, [[maybe_unused]] float b, \
              [[maybe_unused]] float c) -> float { return expression; })
#define F64(body, expression)                                       \
  CheckF64(body,                                                    \
           []([[maybe_unused]] double a, [[maybe_unused]] double b, \
              [[maybe_unused]] double c) -> double { return expression; })

float Flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }
float Clamp(float x) { return x > 0 ? (x < 1 ? x : 1.0F) : 0.0F; }

// Evaluates `operation` in a rounding mode of the host.
template <typename T, typename Operation>
T In(int mode, T a, T b, T c, Operation operation) {
  volatile T x = a, y = b, z = c;
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile T result = operation(x, y, z);
  std::fesetround(before);
  return result;
}

TEST(Float, Arithmetic) {
  F32("add.f32 %f0, %f1, %f2;", a + b);
  F32("sub.rn.f32 %f0, %f1, %f2;", a - b);
  F32("mul.f32 %f0, %f1, %f2;", a * b);
  F32("div.rn.f32 %f0, %f1, %f2;", a / b);
  F32("fma.rn.f32 %f0, %f1, %f2, %f3;", std::fma(a, b, c));
  F32("mad.rn.f32 %f0, %f1, %f2, %f3;", std::fma(a, b, c));
  F32("sqrt.rn.f32 %f0, %f1;", std::sqrt(a));
  F32("rcp.rn.f32 %f0, %f1;", 1 / a);
  F32("neg.f32 %f0, %f1;", -a);
  F32("abs.f32 %f0, %f1;", std::abs(a));
  F64("add.f64 %g0, %g1, %g2;", a + b);
  F64("sub.f64 %g0, %g1, %g2;", a - b);
  F64("mul.rn.f64 %g0, %g1, %g2;", a * b);
  F64("div.rn.f64 %g0, %g1, %g2;", a / b);
  F64("fma.rn.f64 %g0, %g1, %g2, %g3;", std::fma(a, b, c));
  F64("sqrt.rn.f64 %g0, %g1;", std::sqrt(a));
  F64("rcp.rn.f64 %g0, %g1;", 1 / a);
  F64("neg.f64 %g0, %g1;", -a);
  F64("abs.f64 %g0, %g1;", std::abs(a));
}

// No contraction: a product and a sum are rounded separately.
TEST(Float, ProductsAndSumsAreNotFused) {
  const float x = 1.0F + 0x1p-12F;
  const auto result = EvaluateOne("mul.f32 %f6, %f1, %f1; sub.f32 %f0, %f6, %f2;",
                                  {{Bits(x), Bits(1.0F + 0x1p-11F), 0, 0, 0}});
  EXPECT_EQ(AsFloat(result.f), 0);
}

TEST(Float, FlushToZeroAndSaturation) {
  F32("add.ftz.f32 %f0, %f1, %f2;", Flush(Flush(a) + Flush(b)));
  F32("mul.ftz.f32 %f0, %f1, %f2;", Flush(Flush(a) * Flush(b)));
  F32("sub.ftz.f32 %f0, %f1, %f2;", Flush(Flush(a) - Flush(b)));
  F32("fma.rn.ftz.f32 %f0, %f1, %f2, %f3;", Flush(std::fma(Flush(a), Flush(b), Flush(c))));
  F32("neg.ftz.f32 %f0, %f1;", Flush(-a));
  F32("abs.ftz.f32 %f0, %f1;", Flush(std::abs(a)));
  F32("add.sat.f32 %f0, %f1, %f2;", Clamp(a + b));
  F32("mul.sat.f32 %f0, %f1, %f2;", Clamp(a * b));
  F32("fma.rn.sat.f32 %f0, %f1, %f2, %f3;", Clamp(std::fma(a, b, c)));
}

template <typename T>
void CheckRoundings(const char* type, const char* prefix, auto check) {
  const struct {
    const char* name;
    int mode;
  } modes[] = {{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (const auto& [name, mode] : modes) {
    const auto body = [&](const char* op, int inputs) {
      std::string text = Format("{}.{}.{} {}0", op, name, type, prefix);
      for (int i = 1; i <= inputs; ++i) text += Format(", {}{}", prefix, i);
      return text + ";";
    };
    check(body("add", 2), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T y, T) { return x + y; });
    });
    check(body("sub", 2), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T y, T) { return x - y; });
    });
    check(body("mul", 2), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T y, T) { return x * y; });
    });
    check(body("div", 2), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T y, T) { return x / y; });
    });
    check(body("fma", 3), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T y, T z) { return std::fma(x, y, z); });
    });
    check(body("sqrt", 1), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T, T) { return std::sqrt(x); });
    });
    check(body("rcp", 1), [mode = mode](T a, T b, T c) {
      return In(mode, a, b, c, [](T x, T, T) { return T{1} / x; });
    });
  }
}

TEST(Float, DirectedRoundings) {
  CheckRoundings<float>("f32", "%f",
                        [](const std::string& body, auto expected) { CheckF32(body, expected); });
  CheckRoundings<double>("f64", "%g",
                         [](const std::string& body, auto expected) { CheckF64(body, expected); });
}

float Smaller(float a, float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

TEST(Float, MinMaxPreferNumbersAndOrderZeros) {
  F32("min.f32 %f0, %f1, %f2;", Smaller(a, b));
  F32("max.f32 %f0, %f1, %f2;", -Smaller(-a, -b));
  F32("min.ftz.f32 %f0, %f1, %f2;", Smaller(Flush(a), Flush(b)));
  F32("max.NaN.f32 %f0, %f1, %f2;", std::isnan(a) || std::isnan(b) ? kNan : -Smaller(-a, -b));
  F32("min.xorsign.abs.f32 %f0, %f1, %f2;",
      std::isnan(Smaller(std::abs(a), std::abs(b)))
          ? kNan
          : std::copysign(Smaller(std::abs(a), std::abs(b)),
                          std::signbit(a) != std::signbit(b) ? -1.0F : 1.0F));
  F64("max.f64 %g0, %g1, %g2;", std::isnan(a)                           ? b
                                : std::isnan(b)                         ? a
                                : a > b || (a == b && !std::signbit(a)) ? a
                                                                        : b);
}

TEST(Float, CopysignTakesTheSignOfTheFirst) {
  F32("copysign.f32 %f0, %f1, %f2;", std::copysign(b, a));
  F64("copysign.f64 %g0, %g1, %g2;", std::copysign(b, a));
}

template <typename Expected>
void CheckNear(std::string_view body, double tolerance, Expected expected) {
  std::vector<Words> words;
  for (float x = 0.01F; x < 20; x *= 1.37F) words.push_back({{Bits(x), 0, 0, 0, 0}});
  const auto results = Evaluate(body, words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const double want = expected(double{AsFloat(words[i].in[0])});
    EXPECT_NEAR(AsFloat(results[i].f), want, tolerance * std::max(1.0, std::abs(want))) << body;
  }
}

TEST(Float, Approximations) {
  CheckNear("sin.approx.f32 %f0, %f1;", 1e-6, [](double x) { return std::sin(x); });
  CheckNear("cos.approx.ftz.f32 %f0, %f1;", 1e-6, [](double x) { return std::cos(x); });
  CheckNear("ex2.approx.ftz.f32 %f0, %f1;", 1e-6, [](double x) { return std::exp2(x); });
  CheckNear("lg2.approx.f32 %f0, %f1;", 1e-6, [](double x) { return std::log2(x); });
  CheckNear("tanh.approx.f32 %f0, %f1;", 1e-3, [](double x) { return std::tanh(x); });
  CheckNear("rcp.approx.ftz.f32 %f0, %f1;", 1e-6, [](double x) { return 1 / x; });
  CheckNear("rsqrt.approx.f32 %f0, %f1;", 1e-6, [](double x) { return 1 / std::sqrt(x); });
  CheckNear("sqrt.approx.ftz.f32 %f0, %f1;", 1e-6, [](double x) { return std::sqrt(x); });
  CheckNear("div.approx.f32 %f0, 0f3F800000, %f1;", 1e-6, [](double x) { return 1 / x; });
  CheckNear("div.full.ftz.f32 %f0, 0f3F800000, %f1;", 1e-6, [](double x) { return 1 / x; });
  CheckNear("cvt.f64.f32 %g6, %f1; rcp.approx.ftz.f64 %g6, %g6; cvt.rn.f32.f64 %f0, %g6;", 1e-6,
            [](double x) { return 1 / x; });
  // Special values relied on by programs.
  F32("ex2.approx.f32 %f0, %f1;", std::isnan(a)   ? kNan
                                  : std::isinf(a) ? (a > 0 ? kInf : 0.0F)
                                                  : std::exp2(a));
}

TEST(Float, Testp) {
  const auto check = [](const char* kind, auto expected) {
    const auto inputs = FloatInputs();
    std::vector<Words> words;
    for (const auto& in : inputs) words.push_back({{Bits(in.a), 0, 0, 0, 0}});
    const auto results = Evaluate(Format("testp.{}.f32 %p0, %f1;", kind), words);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ASSERT_EQ(results[i].p != 0, expected(inputs[i].a)) << kind << ' ' << inputs[i].a;
  };
  check("finite", [](float x) { return std::isfinite(x); });
  check("infinite", [](float x) { return std::isinf(x); });
  check("number", [](float x) { return !std::isnan(x); });
  check("notanumber", [](float x) { return std::isnan(x); });
  check("normal", [](float x) { return std::isnormal(x) || x == 0; });
  check("subnormal", [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; });
}

// --- f16 and bf16, compared with exact arithmetic in double and one rounding

// Rounds to a format with `digits` binary digits and normal numbers from 2^lowest. Ties to even.
double RoundTo(double x, int digits, int lowest, double overflow) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - digits, lowest - digits + 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::abs(rounded) >= overflow ? std::copysign(kInf, x) : rounded;
}
double ToHalf(double x) { return RoundTo(x, 11, -14, 65536); }
double ToBf16(double x) { return RoundTo(x, 8, -126, 0x1p128); }

double HalfValue(std::uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = static_cast<double>(bits & 1023);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? double{kNan} : sign * kInf;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}
double Bf16Value(std::uint64_t bits) { return AsFloat(bits << 16); }

template <typename Value, typename Expected>
void CheckHalves(std::string_view body, Value value, Expected expected) {
  std::vector<Words> words;
  std::mt19937_64 random(9);
  for (int i = 0; i < 20000; ++i)
    words.push_back({{random() & 0xffff, random() & 0xffff, random() & 0xffff, 0, 0}});
  const auto results = Evaluate(body, words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const double a = value(words[i].in[0]), b = value(words[i].in[1]), c = value(words[i].in[2]);
    const double want = expected(a, b, c), got = value(results[i].h);
    ASSERT_TRUE(Same(got, want)) << body << ' ' << a << ' ' << b << ' ' << c << ": " << got
                                 << ", not " << want;
  }
}

// Returns a * b + c. Rounding the result to f16 or bf16 equals rounding the exact value.
double ExactSum(double a, double b, double c) {
  const long double product = static_cast<long double>(a) * b;
  const long double sum = product + c;
  const long double back = sum - product;
  const long double error = (product - (sum - back)) + (c - back);
  const double nearest = static_cast<double>(sum);
  if (!std::isfinite(nearest)) return nearest;
  // Rounded to odd: it can be rounded again, since double has more than twice the digits.
  const long double rest = (sum - nearest) + error;
  if (rest == 0 || (Bits(nearest) & 1) != 0) return nearest;
  return std::nextafter(nearest, rest > 0 ? HUGE_VAL : -HUGE_VAL);
}

TEST(Float, Halves) {
  CheckHalves("add.f16 %h0, %h1, %h2;", HalfValue,
              [](double a, double b, double) { return ToHalf(a + b); });
  CheckHalves("sub.f16 %h0, %h1, %h2;", HalfValue,
              [](double a, double b, double) { return ToHalf(a - b); });
  CheckHalves("mul.f16 %h0, %h1, %h2;", HalfValue,
              [](double a, double b, double) { return ToHalf(a * b); });
  CheckHalves("fma.rn.f16 %h0, %h1, %h2, %h3;", HalfValue,
              [](double a, double b, double c) { return ToHalf(ExactSum(a, b, c)); });
  CheckHalves("neg.f16 %h0, %h1;", HalfValue, [](double a, double, double) { return -a; });
  CheckHalves("abs.f16 %h0, %h1;", HalfValue, [](double a, double, double) { return std::abs(a); });
  CheckHalves("min.f16 %h0, %h1, %h2;", HalfValue, [](double a, double b, double) -> double {
    return Smaller(static_cast<float>(a), static_cast<float>(b));
  });
}

TEST(Float, Bfloats) {
  CheckHalves("add.bf16 %h0, %h1, %h2;", Bf16Value,
              [](double a, double b, double) { return ToBf16(ExactSum(a, 1, b)); });
  CheckHalves("mul.bf16 %h0, %h1, %h2;", Bf16Value,
              [](double a, double b, double) { return ToBf16(a * b); });
  CheckHalves("fma.rn.bf16 %h0, %h1, %h2, %h3;", Bf16Value,
              [](double a, double b, double c) { return ToBf16(ExactSum(a, b, c)); });
  CheckHalves("neg.bf16 %h0, %h1;", Bf16Value, [](double a, double, double) { return -a; });
}

TEST(Float, PackedHalvesAreTwoHalves) {
  const std::string unpack = "mov.b32 %r6, {%h1, %h2}; mov.b32 %r7, {%h2, %h3};";
  CheckHalves(unpack + "add.f16x2 %r8, %r6, %r7; mov.b32 {%h0, %h9}, %r8;", HalfValue,
              [](double a, double b, double) { return ToHalf(a + b); });
  CheckHalves(unpack + "mul.f16x2 %r8, %r6, %r7; mov.b32 {%h9, %h0}, %r8;", HalfValue,
              [](double, double b, double c) { return ToHalf(b * c); });
  CheckHalves(unpack + "fma.rn.f16x2 %r8, %r6, %r7, %r6; mov.b32 {%h0, _}, %r8;", HalfValue,
              [](double a, double b, double) { return ToHalf(ExactSum(a, b, a)); });
  CheckHalves(unpack + "fma.rn.bf16x2 %r8, %r6, %r7, %r6; mov.b32 {_, %h0}, %r8;", Bf16Value,
              [](double, double b, double c) { return ToBf16(ExactSum(b, c, b)); });
  CheckHalves(unpack + "neg.f16x2 %r8, %r6; mov.b32 {%h0, _}, %r8;", HalfValue,
              [](double a, double, double) { return -a; });
}

}  // namespace
}  // namespace cuspan::softgpu
