// Tests comparison and selection against their definitions in the PTX ISA.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using U64 = std::uint64_t;

const U64 kWords[] = {0,          1,          2,          0x7fff,      0x8000,       0xffff,
                      0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, U64{1} << 63, ~U64{0}};

template <typename T>
void CheckIntegers(const char* type, const char* prefix) {
  const struct {
    const char* name;
    std::function<bool(T, T)> expected;
  } comparisons[] = {{"eq", std::equal_to<T>()}, {"ne", std::not_equal_to<T>()},
                     {"lt", std::less<T>()},     {"le", std::less_equal<T>()},
                     {"gt", std::greater<T>()},  {"ge", std::greater_equal<T>()}};
  std::vector<Words> words;
  for (U64 a : kWords)
    for (U64 b : kWords) words.push_back({{a, b, 0, 0, 0}});
  for (const auto& comparison : comparisons) {
    const auto results = Evaluate(
        Format("setp.{}.{} %p0|%p1, {}1, {}2;", comparison.name, type, prefix, prefix), words);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool want =
          comparison.expected(static_cast<T>(words[i].in[0]), static_cast<T>(words[i].in[1]));
      ASSERT_EQ(results[i].p != 0, want)
          << comparison.name << ' ' << type << ' ' << words[i].in[0] << ' ' << words[i].in[1];
      ASSERT_EQ(results[i].q != 0, !want);
    }
  }
}

TEST(Compare, Integers) {
  CheckIntegers<std::int32_t>("s32", "%r");
  CheckIntegers<std::uint32_t>("u32", "%r");
  CheckIntegers<std::int64_t>("s64", "%d");
  CheckIntegers<std::uint64_t>("u64", "%d");
  CheckIntegers<std::int16_t>("s16", "%h");
  CheckIntegers<std::uint16_t>("u16", "%h");
}

TEST(Compare, UnsignedNamesAndUntypedBits) {
  const Words words{{1, 0xffffffff, 0, 0, 0}};
  EXPECT_EQ(EvaluateOne("setp.lo.u32 %p0, %r1, %r2; setp.hs.u32 %p1, %r1, %r2;", words).p, 1U);
  EXPECT_EQ(EvaluateOne("setp.ls.u32 %p0, %r1, %r1; setp.hi.u32 %p1, %r2, %r1;", words).q, 1U);
  EXPECT_EQ(EvaluateOne("setp.eq.b32 %p0, %r1, 1; setp.ne.b64 %p1, %d1, %d2;", words).q, 1U);
  EXPECT_EQ(EvaluateOne("setp.eq.b16 %p0, %h2, -1;", words).p, 1U);
}

TEST(Compare, FloatsWithNaNs) {
  const float values[] = {0.0F, -0.0F, 1, -1, 1e-40F, HUGE_VALF, std::nanf("")};
  const struct {
    const char* name;
    bool (*ordered)(float, float);
    bool with_nan;
  } comparisons[] = {
      {"eq", [](float a, float b) { return a == b; }, false},
      {"ne", [](float a, float b) { return a != b; }, false},
      {"lt", [](float a, float b) { return a < b; }, false},
      {"le", [](float a, float b) { return a <= b; }, false},
      {"gt", [](float a, float b) { return a > b; }, false},
      {"ge", [](float a, float b) { return a >= b; }, false},
      {"equ", [](float a, float b) { return a == b; }, true},
      {"neu", [](float a, float b) { return a != b; }, true},
      {"ltu", [](float a, float b) { return a < b; }, true},
      {"leu", [](float a, float b) { return a <= b; }, true},
      {"gtu", [](float a, float b) { return a > b; }, true},
      {"geu", [](float a, float b) { return a >= b; }, true},
      {"num", [](float, float) { return true; }, false},
      {"nan", [](float, float) { return false; }, true},
  };
  std::vector<Words> singles, doubles;
  for (float a : values) {
    for (float b : values) {
      singles.push_back({{Bits(a), Bits(b), 0, 0, 0}});
      doubles.push_back({{Bits(double{a}), Bits(double{b}), 0, 0, 0}});
    }
  }
  for (const auto& comparison : comparisons) {
    const auto f32 = Evaluate(Format("setp.{}.f32 %p0, %f1, %f2;", comparison.name), singles);
    const auto f64 = Evaluate(Format("setp.{}.f64 %p0, %g1, %g2;", comparison.name), doubles);
    for (std::size_t i = 0; i < singles.size(); ++i) {
      const float a = AsFloat(singles[i].in[0]), b = AsFloat(singles[i].in[1]);
      const bool want =
          std::isnan(a) || std::isnan(b) ? comparison.with_nan : comparison.ordered(a, b);
      EXPECT_EQ(f32[i].p != 0, want) << comparison.name << ' ' << a << ' ' << b;
      EXPECT_EQ(f64[i].p != 0, want) << comparison.name << ' ' << a << ' ' << b;
    }
  }
  EXPECT_EQ(EvaluateOne("setp.eq.ftz.f32 %p0, %f1, %f2;", {{Bits(1e-40F), 0, 0, 0, 0}}).p, 1U);
}

TEST(Compare, BooleanOperationsApplyToBothDestinations) {
  // p = (a < b) op c, q = !(a < b) op c
  for (unsigned less = 0; less < 2; ++less) {
    for (unsigned c = 0; c < 2; ++c) {
      const Words words{{less != 0 ? 1U : 3U, 2, c, 0, 0}};
      const auto run = [&](const char* op, const char* operand) {
        return EvaluateOne(
            Format("setp.ne.u32 %p2, %r3, 0; setp.lt.{}.s32 %p0|%p1, %r1, %r2, {};", op, operand),
            words);
      };
      EXPECT_EQ(run("and", "%p2").p, less & c);
      EXPECT_EQ(run("and", "%p2").q, (less ^ 1) & c);
      EXPECT_EQ(run("or", "!%p2").p, less | (c ^ 1));
      EXPECT_EQ(run("xor", "%p2").q, (less ^ 1) ^ c);
    }
  }
}

TEST(Compare, SetSelectAndPredicates) {
  const Words words{{5, 7, Bits(1.0F), 0, 0}};
  EXPECT_EQ(EvaluateOne("set.lt.u32.s32 %r0, %r1, %r2;", words).r, 0xffffffffU);
  EXPECT_EQ(EvaluateOne("set.gt.u32.s32 %r0, %r1, %r2;", words).r, 0U);
  EXPECT_EQ(EvaluateOne("set.lt.f32.s32 %f0, %r1, %r2;", words).f, Bits(1.0F));
  EXPECT_EQ(EvaluateOne("setp.eq.u32 %p2, %r1, 5; set.gt.or.u32.f32 %r0, %f1, %f2, %p2;", words).r,
            0xffffffffU);
  // f16: 1.0 is 0x3c00.
  EXPECT_EQ(EvaluateOne("set.eq.f16.f16 %h0, %h1, %h1;", words).h, 0x3c00U);
  EXPECT_EQ(
      EvaluateOne(
          "mov.b32 %r6, 0x3c004000; mov.b32 %r7, 0x3c003c00; set.eq.f16x2.f16x2 %r0, %r6, %r7;",
          words)
          .r,
      0x3c000000U);
  const auto packed = EvaluateOne(
      "mov.b32 %r6, 0x3c004000; mov.b32 %r7, 0x3c003c00; setp.gt.f16x2 %p0|%p1, %r6, %r7;", words);
  EXPECT_EQ(packed.p, 1U);
  EXPECT_EQ(packed.q, 0U);
  EXPECT_EQ(EvaluateOne("setp.eq.u32 %p2, %r1, 5; selp.b64 %d0, %d1, %d2, %p2;", words).d, 5U);
  EXPECT_EQ(
      EvaluateOne("setp.eq.u32 %p2, %r1, 5; not.pred %p3, %p2; selp.f32 %f0, %f2, %f3, %p3;", words)
          .f,
      Bits(1.0F));
  EXPECT_EQ(EvaluateOne("mov.pred %p2, 1; setp.eq.u32 %p3, %r1, 0; xor.pred %p0, %p2, %p3; "
                        "and.pred %p1, %p0, !%p2;",
                        words)
                .p,
            1U);
  EXPECT_EQ(EvaluateOne("slct.b32.s32 %r0, %r1, %r2, -1;", words).r, 7U);
  EXPECT_EQ(EvaluateOne("slct.u32.f32 %r0, %r1, %r2, 0f00000000;", words).r, 5U);
}

}  // namespace
}  // namespace cuspan::softgpu
