// Tests arithmetic on NCCL's types. References follow from the formats' definitions, with exact
// arithmetic in double.
#include "proxy/softnccl/elements.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace cuspan::softnccl {
namespace {

// A floating-point format with a sign, and the values of its codes.
struct FloatFormat {
  nccl::DataType type;
  int exponent_bits, fraction_bits;
  bool infinities;  // True if the largest exponent is reserved for infinities and NaNs.

  int bits() const { return 1 + exponent_bits + fraction_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  // Returns the largest finite number.
  double Largest() const {
    const unsigned all = (1U << (bits() - 1)) - 1;
    return Value(infinities ? all - (1U << fraction_bits) : all - 1);
  }
  // Returns the value of a code, or NaN.
  double Value(unsigned code) const {
    const unsigned fraction = code & ((1U << fraction_bits) - 1);
    const unsigned exponent = code >> fraction_bits & ((1U << exponent_bits) - 1);
    const double sign = (code >> (bits() - 1) & 1U) != 0 ? -1 : 1;
    const unsigned largest = (1U << exponent_bits) - 1;
    if (infinities && exponent == largest)
      return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
    if (!infinities && exponent == largest && fraction == (1U << fraction_bits) - 1)
      return std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias() - fraction_bits);
    return sign * std::ldexp(fraction + (1U << fraction_bits),
                             static_cast<int>(exponent) - bias() - fraction_bits);
  }
};

constexpr FloatFormat kHalf{nccl::kFloat16, 5, 10, true};
constexpr FloatFormat kBrain{nccl::kBfloat16, 8, 7, true};
constexpr FloatFormat kE4M3{nccl::kFloat8E4M3, 4, 3, false};
constexpr FloatFormat kE5M2{nccl::kFloat8E5M2, 5, 2, true};

unsigned Code(const std::byte* data, const FloatFormat& format) {
  if (format.bits() == 8) return std::to_integer<unsigned>(data[0]);
  std::uint16_t code = 0;
  std::memcpy(&code, data, 2);
  return code;
}

std::vector<std::byte> Bytes(unsigned code, const FloatFormat& format) {
  std::vector<std::byte> bytes(format.bits() / 8);
  std::memcpy(bytes.data(), &code, bytes.size());
  return bytes;
}

unsigned Reduced(nccl::ReduceOp op, unsigned a, unsigned b, const FloatFormat& format) {
  const std::vector<std::byte> first = Bytes(a, format), second = Bytes(b, format);
  const std::byte* const inputs[] = {first.data(), second.data()};
  std::vector<std::byte> out(first.size());
  Reduce(format.type, op, inputs, out.data(), 1);
  return Code(out.data(), format);
}

// True if `code` is nearest to `exact`; of two equally near codes, the even one.
bool IsNearest(double exact, unsigned code, const FloatFormat& format) {
  const double found = format.Value(code), distance = std::abs(found - exact);
  const unsigned magnitude = code & ~(1U << (format.bits() - 1));
  for (const int step : {-1, 1}) {
    if (magnitude == 0 && step < 0) continue;
    const double other = format.Value(code + static_cast<unsigned>(step));
    if (!std::isfinite(other)) continue;
    if (std::abs(other - exact) < distance) return false;
    if (std::abs(other - exact) == distance && code % 2 == 1) return false;
  }
  return true;
}

TEST(Elements, SumsAreRoundedToTheNearest) {
  for (const FloatFormat& format : {kHalf, kBrain, kE4M3, kE5M2}) {
    // All pairs if there are few codes, else some.
    const unsigned codes = 1U << format.bits(), step = format.bits() == 8 ? 1 : 257;
    for (unsigned a = 0; a < codes; a += step) {
      for (unsigned b = 0; b < codes; b += step) {
        const double x = format.Value(a), y = format.Value(b);
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        // The reference is right only if the sum is exact in float.
        if (static_cast<double>(static_cast<float>(x + y)) != x + y) continue;
        const unsigned code = Reduced(nccl::kSum, a, b, format);
        const double found = format.Value(code), largest = format.Largest();
        if (format.bits() == 8 && std::abs(x + y) > largest) {
          ASSERT_EQ(found, std::copysign(largest, x + y));
        } else if (std::abs(x + y) <= largest) {
          ASSERT_TRUE(std::isfinite(found) && IsNearest(x + y, code, format))
              << format.type << ": " << x << " + " << y << " = " << found;
        }
      }
    }
  }
}

TEST(Elements, TooLargeBecomesInfinityOrTheLargest) {
  EXPECT_EQ(kHalf.Value(Reduced(nccl::kSum, 0x7bff, 0x7bff, kHalf)), INFINITY);
  EXPECT_EQ(kBrain.Value(Reduced(nccl::kSum, 0xff7f, 0xff7f, kBrain)), -INFINITY);
  EXPECT_EQ(kE4M3.Value(Reduced(nccl::kSum, 0x7e, 0x7e, kE4M3)), 448);
  EXPECT_EQ(kE5M2.Value(Reduced(nccl::kSum, 0xfb, 0xfb, kE5M2)), -57344);
}

TEST(Elements, NansStay) {
  for (const FloatFormat& format : {kHalf, kBrain, kE4M3, kE5M2}) {
    const unsigned nan = (1U << (format.bits() - 1)) - 1;
    EXPECT_TRUE(std::isnan(format.Value(Reduced(nccl::kSum, nan, 0, format)))) << format.type;
    EXPECT_TRUE(std::isnan(format.Value(Reduced(nccl::kProduct, 0, nan, format)))) << format.type;
  }
  // A NaN; truncation would remove its fraction.
  EXPECT_TRUE(std::isnan(kBrain.Value(Reduced(nccl::kSum, 0x7f81, 0, kBrain))));
}

TEST(Elements, ManyAddendsAreRoundedOnce) {
  // 2048 + 1 is not representable as a half; 2048 + 1 + 1 is.
  const std::uint16_t large = 0x6800, one = 0x3c00;
  const auto* const first = reinterpret_cast<const std::byte*>(&large);
  const auto* const other = reinterpret_cast<const std::byte*>(&one);
  const std::byte* const inputs[] = {first, other, other};
  std::uint16_t out = 0;
  Reduce(nccl::kFloat16, nccl::kSum, inputs, reinterpret_cast<std::byte*>(&out), 1);
  EXPECT_EQ(kHalf.Value(out), 2050);
}

template <typename T>
std::vector<T> ReducedAll(nccl::DataType type, nccl::ReduceOp op,
                          const std::vector<std::vector<T>>& values) {
  std::vector<const std::byte*> inputs;
  for (const std::vector<T>& one : values)
    inputs.push_back(reinterpret_cast<const std::byte*>(one.data()));
  std::vector<T> out(values[0].size());
  Reduce(type, op, inputs, reinterpret_cast<std::byte*>(out.data()), out.size());
  return out;
}

TEST(Elements, IntegersWrap) {
  using std::vector;
  EXPECT_EQ(ReducedAll<std::int8_t>(nccl::kInt8, nccl::kSum, {{127, -128, 5}, {1, -1, -7}}),
            (vector<std::int8_t>{-128, 127, -2}));
  EXPECT_EQ(ReducedAll<std::uint8_t>(nccl::kUint8, nccl::kProduct, {{200, 16}, {2, 16}}),
            (vector<std::uint8_t>{144, 0}));
  EXPECT_EQ(ReducedAll<std::int32_t>(nccl::kInt32, nccl::kSum, {{INT32_MAX}, {1}}),
            (vector<std::int32_t>{INT32_MIN}));
  EXPECT_EQ(ReducedAll<std::int64_t>(nccl::kInt64, nccl::kProduct, {{INT64_MIN}, {-1}}),
            (vector<std::int64_t>{INT64_MIN}));
  EXPECT_EQ(ReducedAll<std::uint64_t>(nccl::kUint64, nccl::kMaximum, {{1, UINT64_MAX}, {2, 0}}),
            (vector<std::uint64_t>{2, UINT64_MAX}));
  EXPECT_EQ(ReducedAll<std::int32_t>(nccl::kInt32, nccl::kMinimum, {{-3, 4}, {2, -5}}),
            (vector<std::int32_t>{-3, -5}));
  EXPECT_EQ(ReducedAll<std::uint32_t>(nccl::kUint32, nccl::kMinimum, {{3, UINT32_MAX}, {2, 7}}),
            (vector<std::uint32_t>{2, 7}));
}

TEST(Elements, Averages) {
  EXPECT_EQ(ReducedAll<std::int32_t>(nccl::kInt32, nccl::kAverage, {{-7, 7}, {0, 0}}),
            (std::vector<std::int32_t>{-3, 3}));
  EXPECT_EQ(ReducedAll<float>(nccl::kFloat32, nccl::kAverage, {{1, 3}, {2, 5}, {6, -2}}),
            (std::vector<float>{3, 2}));
  EXPECT_EQ(ReducedAll<double>(nccl::kFloat64, nccl::kAverage, {{0.5}, {0.25}}),
            (std::vector<double>{0.375}));
  // More ranks than the type can count to.
  const std::vector<std::vector<std::int8_t>> many(200, {0});
  EXPECT_EQ(ReducedAll<std::int8_t>(nccl::kInt8, nccl::kAverage, many),
            (std::vector<std::int8_t>{0}));
}

TEST(Elements, MultiplyIsInPlace) {
  std::vector<float> values = {1, -2, 0.5};
  const float factor = 4;
  Multiply(nccl::kFloat32, reinterpret_cast<const std::byte*>(&factor),
           reinterpret_cast<std::byte*>(values.data()), values.size());
  EXPECT_EQ(values, (std::vector<float>{4, -8, 2}));
}

TEST(Elements, NeedNoAlignment) {
  std::vector<std::byte> memory(1 + 3 * sizeof(double));
  for (int i = 0; i < 3; ++i) {
    const double value = i + 0.5;
    std::memcpy(memory.data() + 1 + i * sizeof(double), &value, sizeof(value));
  }
  const std::byte* const inputs[] = {memory.data() + 1, memory.data() + 1};
  Reduce(nccl::kFloat64, nccl::kSum, inputs, memory.data() + 1, 3);
  double last = 0;
  std::memcpy(&last, memory.data() + 1 + 2 * sizeof(double), sizeof(last));
  EXPECT_EQ(last, 5);
}

}  // namespace
}  // namespace cuspan::softnccl
