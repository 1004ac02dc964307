// Tests integer and bit instructions against their definitions in the PTX ISA.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

using U32 = std::uint32_t;
using S32 = std::int32_t;
using U64 = std::uint64_t;
using S64 = std::int64_t;
__extension__ typedef __int128 S128;
__extension__ typedef unsigned __int128 U128;

// Corner cases in all pairs, and random words.
std::vector<Words> Inputs() {
  static const U64 kCorners[] = {0,
                                 1,
                                 2,
                                 31,
                                 32,
                                 33,
                                 63,
                                 64,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0xfffffffe,
                                 0x12345678,
                                 ~U64{0},
                                 U64{1} << 63,
                                 ~U64{0} >> 1,
                                 0x123456789abcdef0};
  std::vector<Words> inputs;
  std::mt19937_64 random(1);
  for (U64 a : kCorners)
    for (U64 b : kCorners) inputs.push_back({{a, b, random(), random() % 40, random() % 40}});
  for (int i = 0; i < 300; ++i)
    inputs.push_back({{random(), random(), random(), random() % 300, random() % 300}});
  return inputs;
}

// Compares field `result` of each evaluation with `expected` of its input words.
template <typename Expected>
void Check(std::string_view body, U64 Results::*result, Expected expected) {
  const auto inputs = Inputs();
  const auto results = Evaluate(body, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& in = inputs[i].in;
    ASSERT_EQ(results[i].*result, static_cast<U64>(expected(in[0], in[1], in[2], in[3], in[4])))
        << body << std::hex << " a=" << in[0] << " b=" << in[1] << " c=" << in[2] << " d=" << in[3]
        << " e=" << in[4];
  }
}

#define OPERANDS                                                                                  \
  [[maybe_unused]] U64 a, [[maybe_unused]] U64 b, [[maybe_unused]] U64 c, [[maybe_unused]] U64 d, \
      [[maybe_unused]] U64 e
#define CHECK32(body, expression) \
  Check(body, &Results::r, [](OPERANDS) { return static_cast<U32>(expression); })
#define CHECK64(body, expression) \
  Check(body, &Results::d, [](OPERANDS) { return static_cast<U64>(expression); })
#define CHECK16(body, expression) \
  Check(body, &Results::h, [](OPERANDS) { return static_cast<std::uint16_t>(expression); })

U32 Low(U64 x) { return static_cast<U32>(x); }
S32 Signed(U64 x) { return static_cast<S32>(x); }
S64 Signed64(U64 x) { return static_cast<S64>(x); }

TEST(Integer, AddSubMul) {
  CHECK32("add.s32 %r0, %r1, %r2;", a + b);
  CHECK64("add.u64 %d0, %d1, %d2;", a + b);
  CHECK16("add.s16 %h0, %h1, %h2;", a + b);
  CHECK32("sub.u32 %r0, %r1, %r2;", a - b);
  CHECK64("sub.s64 %d0, %d1, %d2;", a - b);
  CHECK32("mul.lo.s32 %r0, %r1, %r2;", Low(a) * Low(b));
  CHECK64("mul.lo.u64 %d0, %d1, %d2;", a * b);
  CHECK16("mul.lo.s16 %h0, %h1, %h2;", a * b);
  CHECK32("mul.hi.u32 %r0, %r1, %r2;", U64{Low(a)} * Low(b) >> 32);
  CHECK32("mul.hi.s32 %r0, %r1, %r2;", S64{Signed(a)} * Signed(b) >> 32);
  CHECK64("mul.hi.u64 %d0, %d1, %d2;", U128{a} * b >> 64);
  CHECK64("mul.hi.s64 %d0, %d1, %d2;", S128{Signed64(a)} * Signed64(b) >> 64);
  CHECK64("mul.wide.u32 %d0, %r1, %r2;", U64{Low(a)} * Low(b));
  CHECK64("mul.wide.s32 %d0, %r1, %r2;", S64{Signed(a)} * Signed(b));
  CHECK32("mul.wide.u16 %r0, %h1, %h2;", (Low(a) & 0xffff) * (Low(b) & 0xffff));
  CHECK32("mul.wide.s16 %r0, %h1, %h2;",
          static_cast<std::int16_t>(a) * static_cast<std::int16_t>(b));
  CHECK32("add.sat.s32 %r0, %r1, %r2;",
          std::min<S64>(std::max<S64>(S64{Signed(a)} + Signed(b), INT32_MIN), INT32_MAX));
  CHECK32("sub.sat.s32 %r0, %r1, %r2;",
          std::min<S64>(std::max<S64>(S64{Signed(a)} - Signed(b), INT32_MIN), INT32_MAX));
}

TEST(Integer, Mad) {
  CHECK32("mad.lo.s32 %r0, %r1, %r2, %r3;", Low(a) * Low(b) + Low(c));
  CHECK32("mad.hi.u32 %r0, %r1, %r2, %r3;", Low(U64{Low(a)} * Low(b) >> 32) + Low(c));
  CHECK64("mad.wide.u32 %d0, %r1, %r2, %d3;", U64{Low(a)} * Low(b) + c);
  CHECK64("mad.wide.s32 %d0, %r1, %r2, %d3;", static_cast<U64>(S64{Signed(a)} * Signed(b)) + c);
  CHECK64("mad.lo.s64 %d0, %d1, %d2, %d3;", a * b + c);
  CHECK32("mad24.lo.u32 %r0, %r1, %r2, %r3;", (a & 0xffffff) * (b & 0xffffff) + c);
  CHECK32("mul24.hi.u32 %r0, %r1, %r2;", (a & 0xffffff) * (b & 0xffffff) >> 16);
  CHECK32("mul24.lo.s32 %r0, %r1, %r2;", S64{Signed(a << 8) >> 8} * (Signed(b << 8) >> 8));
  CHECK32("sad.u32 %r0, %r1, %r2, %r3;",
          (Low(a) > Low(b) ? Low(a) - Low(b) : Low(b) - Low(a)) + Low(c));
  CHECK32("sad.s32 %r0, %r1, %r2, %r3;", std::abs(S64{Signed(a)} - Signed(b)) + Low(c));
}

TEST(Integer, DivisionNeverTraps) {
  const auto guarded = [](const char* body, U64 Results::*result, auto quotient) {
    Check(body, result, [&](OPERANDS) { return quotient(a, b); });
  };
  guarded("div.u32 %r0, %r1, %r2;", &Results::r,
          [](U64 a, U64 b) -> U64 { return Low(b) == 0 ? 0xffffffff : Low(a) / Low(b); });
  guarded("rem.u32 %r0, %r1, %r2;", &Results::r,
          [](U64 a, U64 b) -> U64 { return Low(b) == 0 ? Low(a) : Low(a) % Low(b); });
  guarded("div.s32 %r0, %r1, %r2;", &Results::r, [](U64 a, U64 b) -> U64 {
    return Low(b) == 0 ? 0xffffffff : Low(static_cast<U64>(S64{Signed(a)} / Signed(b)));
  });
  guarded("rem.s32 %r0, %r1, %r2;", &Results::r, [](U64 a, U64 b) -> U64 {
    return Low(b) == 0 ? Low(a) : Low(static_cast<U64>(S64{Signed(a)} % Signed(b)));
  });
  guarded("div.s64 %d0, %d1, %d2;", &Results::d, [](U64 a, U64 b) -> U64 {
    return b == 0 ? ~U64{0} : static_cast<U64>(S128{Signed64(a)} / Signed64(b));
  });
  guarded("rem.s64 %d0, %d1, %d2;", &Results::d, [](U64 a, U64 b) -> U64 {
    return b == 0 ? a : static_cast<U64>(S128{Signed64(a)} % Signed64(b));
  });
  guarded("div.u64 %d0, %d1, %d2;", &Results::d,
          [](U64 a, U64 b) -> U64 { return b == 0 ? ~U64{0} : a / b; });
  guarded("div.u16 %h0, %h1, %h2;", &Results::h, [](U64 a, U64 b) -> U64 {
    return (b & 0xffff) == 0 ? 0xffff : (a & 0xffff) / (b & 0xffff);
  });
}

TEST(Integer, MinMaxAbsNeg) {
  CHECK32("min.s32 %r0, %r1, %r2;", std::min(Signed(a), Signed(b)));
  CHECK32("max.u32 %r0, %r1, %r2;", std::max(Low(a), Low(b)));
  CHECK64("min.u64 %d0, %d1, %d2;", std::min(a, b));
  CHECK64("max.s64 %d0, %d1, %d2;", std::max(Signed64(a), Signed64(b)));
  CHECK16("max.u16 %h0, %h1, %h2;", std::max(a & 0xffff, b & 0xffff));
  CHECK32("abs.s32 %r0, %r1;", Signed(a) < 0 ? 0 - Low(a) : Low(a));
  CHECK32("neg.s32 %r0, %r1;", 0 - a);
  CHECK64("neg.s64 %d0, %d1;", 0 - a);
  CHECK16("neg.s16 %h0, %h1;", 0 - a);
}

TEST(Integer, LogicAndShifts) {
  CHECK32("and.b32 %r0, %r1, %r2;", a & b);
  CHECK64("or.b64 %d0, %d1, %d2;", a | b);
  CHECK16("xor.b16 %h0, %h1, %h2;", a ^ b);
  CHECK32("not.b32 %r0, %r1;", ~a);
  CHECK32("cnot.b32 %r0, %r1;", Low(a) == 0 ? 1 : 0);
  // Shift amounts above the width are clamped.
  CHECK32("shl.b32 %r0, %r1, %r4;", d > 31 ? 0 : Low(a) << d);
  CHECK64("shl.b64 %d0, %d1, %r4;", d > 63 ? 0 : a << d);
  CHECK16("shl.b16 %h0, %h1, %r4;", d > 15 ? 0 : a << d);
  CHECK32("shr.u32 %r0, %r1, %r4;", d > 31 ? 0 : Low(a) >> d);
  CHECK32("shr.b32 %r0, %r1, %r4;", d > 31 ? 0 : Low(a) >> d);
  CHECK32("shr.s32 %r0, %r1, %r4;", Signed(a) >> std::min<U64>(d, 31));
  CHECK64("shr.s64 %d0, %d1, %r4;", Signed64(a) >> std::min<U64>(d, 63));
  CHECK64("shr.u64 %d0, %d1, %r4;", d > 63 ? 0 : a >> d);
  CHECK16("shr.u16 %h0, %h1, %r4;", d > 15 ? 0 : (a & 0xffff) >> d);
  CHECK32("shf.l.wrap.b32 %r0, %r1, %r2, %r4;", (b << 32 | Low(a)) << (d & 31) >> 32);
  CHECK32("shf.r.wrap.b32 %r0, %r1, %r2, %r4;", (b << 32 | Low(a)) >> (d & 31));
  CHECK32("shf.l.clamp.b32 %r0, %r1, %r2, %r4;", d >= 32 ? Low(a) : (b << 32 | Low(a)) << d >> 32);
  CHECK32("shf.r.clamp.b32 %r0, %r1, %r2, %r4;", d >= 32 ? Low(b) : (b << 32 | Low(a)) >> d);
}

TEST(Integer, BitCounting) {
  CHECK32("popc.b32 %r0, %r1;", std::popcount(Low(a)));
  CHECK32("popc.b64 %r0, %d1;", std::popcount(a));
  CHECK32("clz.b32 %r0, %r1;", std::countl_zero(Low(a)));
  CHECK32("clz.b64 %r0, %d1;", std::countl_zero(a));
  CHECK32("bfind.u32 %r0, %r1;", Low(a) == 0 ? -1 : 31 - std::countl_zero(Low(a)));
  CHECK32("bfind.shiftamt.u32 %r0, %r1;", Low(a) == 0 ? -1 : std::countl_zero(Low(a)));
  CHECK32("bfind.s32 %r0, %r1;", Signed(a) == 0 || Signed(a) == -1
                                     ? -1
                                     : 31 - std::countl_zero(Signed(a) < 0 ? ~Low(a) : Low(a)));
  const auto reversed = [](U64 value, int bits) {
    U64 result = 0;
    for (int i = 0; i < bits; ++i) result |= (value >> i & 1) << (bits - 1 - i);
    return result;
  };
  Check("brev.b32 %r0, %r1;", &Results::r, [&](OPERANDS) { return reversed(a, 32); });
  Check("brev.b64 %d0, %d1;", &Results::d, [&](OPERANDS) { return reversed(a, 64); });
}

// The pseudo-code of the PTX ISA for bfe and bfi.
U64 ExtractField(U64 value, unsigned position, unsigned length, int msb, bool is_signed) {
  const auto bit = [&](unsigned i) { return value >> i & 1; };
  const U64 fill = !is_signed || length == 0
                       ? 0
                       : bit(std::min(position + length - 1, static_cast<unsigned>(msb)));
  U64 result = 0;
  for (int i = 0; i <= msb; ++i) {
    const bool inside =
        static_cast<unsigned>(i) < length && position + i <= static_cast<unsigned>(msb);
    result |= (inside ? bit(position + i) : fill) << i;
  }
  return result;
}
U64 InsertField(U64 field, U64 value, unsigned position, unsigned length, unsigned msb) {
  for (unsigned i = 0; i < length && position + i <= msb; ++i) {
    value &= ~(U64{1} << (position + i));
    value |= (field >> i & 1) << (position + i);
  }
  return value;
}

TEST(Integer, BitFields) {
  CHECK32("bfe.u32 %r0, %r1, %r4, %r5;", ExtractField(a, d & 255, e & 255, 31, false));
  CHECK32("bfe.s32 %r0, %r1, %r4, %r5;", ExtractField(a, d & 255, e & 255, 31, true));
  CHECK64("bfe.u64 %d0, %d1, %r4, %r5;", ExtractField(a, d & 255, e & 255, 63, false));
  CHECK64("bfe.s64 %d0, %d1, %r4, %r5;", ExtractField(a, d & 255, e & 255, 63, true));
  CHECK32("bfi.b32 %r0, %r1, %r2, %r4, %r5;", InsertField(a, Low(b), d & 255, e & 255, 31));
  CHECK64("bfi.b64 %d0, %d1, %d2, %r4, %r5;", InsertField(a, b, d & 255, e & 255, 63));
  const auto mask = [](U64 position, U64 length) -> U64 {
    const U64 ones = length >= 32 ? 0xffffffff : (U64{1} << length) - 1;
    return position >= 32 ? 0 : Low(ones << position);
  };
  Check("bmsk.clamp.b32 %r0, %r4, %r5;", &Results::r, [&](OPERANDS) { return mask(d, e); });
  Check("bmsk.wrap.b32 %r0, %r4, %r5;", &Results::r,
        [&](OPERANDS) { return mask(d & 31, e & 31); });
  CHECK32("szext.clamp.u32 %r0, %r1, %r4;", d >= 32 ? a : a & ((U64{1} << d) - 1));
  CHECK32("szext.wrap.s32 %r0, %r1, %r4;",
          (d & 31) == 0 ? 0 : Signed(a << (32 - (d & 31))) >> (32 - (d & 31)));
}

TEST(Integer, Lop3GivesEveryTable) {
  for (unsigned table : {0x00U, 0x01U, 0x80U, 0x96U, 0xe8U, 0xcaU, 0x78U, 0xfeU, 0xffU}) {
    Check(Format("lop3.b32 %r0, %r1, %r2, %r3, {};", table), &Results::r, [&](OPERANDS) {
      U32 result = 0;
      for (int i = 0; i < 32; ++i) {
        const unsigned index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
        result |= (table >> index & 1) << i;
      }
      return result;
    });
  }
  Check("setp.lt.u32 %p2, %r4, 20; lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x80, %p2;", &Results::p,
        [](OPERANDS) { return Low(a & b & c) != 0 || d < 20; });
}

U32 Permute(U64 a, U64 b, U64 c) {
  U32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const auto selector = c >> (4 * i) & 15;
    auto byte = static_cast<std::uint8_t>((b << 32 | Low(a)) >> (8 * (selector & 7)));
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= U32{byte} << (8 * i);
  }
  return result;
}

TEST(Integer, Prmt) {
  CHECK32("prmt.b32 %r0, %r1, %r2, %r3;", Permute(a, b, c));
  const auto table = [](const char* mode, std::initializer_list<U64> selectors) {
    Check(Format("prmt.b32.{} %r0, %r1, %r2, %r3;", mode), &Results::r,
          [&](OPERANDS) { return Permute(a, b, selectors.begin()[c & 3]); });
  };
  table("f4e", {0x3210, 0x4321, 0x5432, 0x6543});
  table("b4e", {0x5670, 0x6701, 0x7012, 0x0123});
  table("rc8", {0x0000, 0x1111, 0x2222, 0x3333});
  table("ecl", {0x3210, 0x3211, 0x3222, 0x3333});
  table("ecr", {0x0000, 0x1110, 0x2210, 0x3210});
  table("rc16", {0x1010, 0x3232, 0x1010, 0x3232});
}

TEST(Integer, CarryChainsAddAndSubtractLongNumbers) {
  Check("add.cc.u32 %r6, %r1, %r3; addc.u32 %r7, %r2, %r4; mov.b64 %d0, {%r6, %r7};", &Results::d,
        [](OPERANDS) { return (b << 32 | Low(a)) + (d << 32 | Low(c)); });
  Check("sub.cc.u32 %r6, %r1, %r3; subc.u32 %r7, %r2, %r4; mov.b64 %d0, {%r6, %r7};", &Results::d,
        [](OPERANDS) { return (b << 32 | Low(a)) - (d << 32 | Low(c)); });
  // The carry out of a middle step.
  Check("add.cc.u32 %r6, %r1, %r2; addc.cc.u32 %r7, %r3, %r4; addc.u32 %r0, 0, 0;", &Results::r,
        [](OPERANDS) {
          const U64 low = (c << 32 | Low(a)), other = (d << 32 | Low(b));
          return low + other < low ? 1 : 0;
        });
  Check("sub.cc.u64 %d6, %d1, %d2; subc.u64 %d0, %d3, 0;", &Results::d,
        [](OPERANDS) { return c - (a < b ? 1 : 0); });
  // 64 x 32 bits, like nvcc's long products.
  Check(
      "mul.lo.u32 %r6, %r1, %r3; mul.hi.u32 %r7, %r1, %r3; mad.lo.cc.u32 %r7, %r2, %r3, %r7;"
      "madc.hi.u32 %r0, %r2, %r3, 0; mov.b64 %d0, {%r6, %r7};",
      &Results::d, [](OPERANDS) { return static_cast<U64>(U128{b << 32 | Low(a)} * Low(c)); });
  Check("mul.hi.u32 %r7, %r1, %r3; mad.lo.cc.u32 %r7, %r2, %r3, %r7; madc.hi.u32 %r0, %r2, %r3, 0;",
        &Results::r,
        [](OPERANDS) { return static_cast<U64>(U128{b << 32 | Low(a)} * Low(c) >> 64); });
}

TEST(Integer, PackedBytes) {
  const auto byte = [](U64 v, int i) { return static_cast<std::uint8_t>(v >> (8 * i)); };
  const auto signed_byte = [](U64 v, int i) { return static_cast<std::int8_t>(v >> (8 * i)); };
  Check("dp4a.u32.u32 %r0, %r1, %r2, %r3;", &Results::r, [&](OPERANDS) {
    U32 sum = Low(c);
    for (int i = 0; i < 4; ++i) sum += U32{byte(a, i)} * byte(b, i);
    return sum;
  });
  Check("dp4a.s32.s32 %r0, %r1, %r2, %r3;", &Results::r, [&](OPERANDS) {
    U32 sum = Low(c);
    for (int i = 0; i < 4; ++i) sum += static_cast<U32>(signed_byte(a, i) * signed_byte(b, i));
    return sum;
  });
  Check("dp2a.lo.s32.u32 %r0, %r1, %r2, %r3;", &Results::r, [&](OPERANDS) {
    return Low(c) + static_cast<U32>(static_cast<std::int16_t>(a) * byte(b, 0)) +
           static_cast<U32>(static_cast<std::int16_t>(a >> 16) * byte(b, 1));
  });
  const auto halves = [](U64 x, U64 y, auto operation) {
    return static_cast<U32>(
        static_cast<std::uint16_t>(operation(x & 0xffff, y & 0xffff)) |
        static_cast<U32>(static_cast<std::uint16_t>(operation(x >> 16 & 0xffff, y >> 16 & 0xffff)))
            << 16);
  };
  const auto extended = [](U64 x) { return S32{static_cast<std::int16_t>(x)}; };
  Check("add.u16x2 %r0, %r1, %r2;", &Results::r,
        [&](OPERANDS) { return halves(a, b, [](U64 x, U64 y) { return x + y; }); });
  Check("max.s16x2 %r0, %r1, %r2;", &Results::r, [&](OPERANDS) {
    return halves(a, b, [&](U64 x, U64 y) { return std::max(extended(x), extended(y)); });
  });
  Check("min.u16x2 %r0, %r1, %r2;", &Results::r,
        [&](OPERANDS) { return halves(a, b, [](U64 x, U64 y) { return std::min(x, y); }); });
  Check("vabsdiff4.u32.u32.u32 %r0, %r1, %r2, %r3;", &Results::r, [&](OPERANDS) {
    U32 result = 0;
    for (int i = 0; i < 4; ++i)
      result |= static_cast<U32>(std::abs(byte(a, i) - byte(b, i))) << (8 * i);
    return result;
  });
  Check("vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;", &Results::r, [&](OPERANDS) {
    U32 sum = Low(c);
    for (int i = 0; i < 4; ++i) sum += static_cast<U32>(std::abs(byte(a, i) - byte(b, i)));
    return sum;
  });
  Check("vabsdiff2.u32.u32.u32.add %r0, %r1, %r2, %r3;", &Results::r, [&](OPERANDS) {
    U32 sum = Low(c);
    for (int i = 0; i < 2; ++i)
      sum += static_cast<U32>(std::abs(S32{static_cast<std::uint16_t>(a >> (16 * i))} -
                                       S32{static_cast<std::uint16_t>(b >> (16 * i))}));
    return sum;
  });
}

}  // namespace
}  // namespace cuspan::softgpu
