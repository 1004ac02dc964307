// Arithmetic of the references: exact, then rounded once.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/unit/proxy/softgpu/instructions/forms.h"

namespace cuspan::ptx_forms {

enum class Mode : std::uint8_t { kNearest, kZero, kDown, kUp, kNearestAway };

using Wide = __float128;  // 113 digits.

inline constexpr unsigned kLanes = 32;  // Lanes of a warp.

// A binary format: digits including the hidden one, and exponents of normal numbers.
struct Format {
  int digits;
  int lowest;   // Exponent of the smallest normal number, 2^lowest.
  int highest;  // Exponent of the largest number.
};
inline constexpr Format kHalfFormat{11, -14, 15};
inline constexpr Format kBf16Format{8, -126, 127};
inline constexpr Format kFloatFormat{24, -126, 127};
inline constexpr Format kDoubleFormat{53, -1022, 1023};
inline constexpr Format kTf32Format{11, -126, 127};

// Returns the sum, rounded to odd if it has more than 113 digits. Rounding it again to far fewer
// digits equals rounding the exact sum.
inline Wide AddToOdd(Wide x, Wide y) {
  const Wide sum = x + y;
  if (!(sum - sum == 0)) return sum;  // Infinite or NaN.
  const Wide y_part = sum - x;
  const Wide error = (x - (sum - y_part)) + (y - y_part);
  if (error == 0) return sum;
  auto bits = __builtin_bit_cast(unsigned __int128, sum);
  if ((bits & 1) == 0) {
    const bool outwards = (error < 0) == (sum < 0);
    bits += outwards ? 1 : ~static_cast<unsigned __int128>(0);
  }
  return __builtin_bit_cast(Wide, bits);
}

inline Wide Power(int exponent) {  // 2^exponent, within the range of normal numbers.
  return __builtin_bit_cast(Wide, static_cast<unsigned __int128>(exponent + 16383) << 112);
}

// Rounds `x` to a value of the format, including infinities.
inline Wide RoundTo(const Format& format, Wide x, Mode mode) {
  if (x == 0 || !(x - x == 0)) return x;
  const bool negative = x < 0;
  const Wide magnitude = negative ? -x : x;
  const auto exponent =
      static_cast<int>(__builtin_bit_cast(unsigned __int128, magnitude) >> 112) - 16383;
  const int step_exponent = std::max(exponent, format.lowest) - format.digits + 1;
  const Wide scaled = magnitude / Power(step_exponent);  // Exact: a power of two.
  // Below 2^64: an integer can represent the whole part.
  const auto whole = static_cast<std::uint64_t>(scaled);
  const Wide rest = scaled - static_cast<Wide>(whole);
  bool up = false;
  switch (mode) {
    case Mode::kNearest:
      up = rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
      break;
    case Mode::kNearestAway:
      up = rest >= 0.5;
      break;
    case Mode::kZero:
      break;
    case Mode::kDown:
      up = rest > 0 && negative;
      break;
    case Mode::kUp:
      up = rest > 0 && !negative;
      break;
  }
  Wide result = static_cast<Wide>(whole + (up ? 1 : 0)) * Power(step_exponent);
  const Wide limit = Power(format.highest) * 2;
  if (result >= limit) {
    const Wide largest = limit - Power(format.highest - format.digits + 1);
    const bool stays = mode == Mode::kZero || (mode == Mode::kDown && !negative) ||
                       (mode == Mode::kUp && negative);
    result = stays ? largest : static_cast<Wide>(std::numeric_limits<double>::infinity());
  }
  return negative ? -result : result;
}

// True if .ftz flushes a result: after rounding with unlimited exponents it is below the smallest
// normal number. Hardware does the same (seen on an H200). The ISA does not define if the value is
// tested before or after rounding.
inline bool IsFlushed(const Format& format, Wide exact, Mode mode) {
  constexpr int kNoEnd = -16000;
  const Wide rounded = RoundTo({format.digits, kNoEnd, format.highest}, exact, mode);
  return (rounded < 0 ? -rounded : rounded) < Power(format.lowest);
}

// --- Halves

inline double ToDouble(Half h) {
  const int exponent = h.bits >> 10 & 31;
  const int fraction = h.bits & 1023;
  const double sign = (h.bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}
inline double ToDouble(Bf16 h) { return std::bit_cast<float>(std::uint32_t{h.bits} << 16); }
inline double ToDouble(float x) { return x; }
inline double ToDouble(double x) { return x; }

// Rounds `x` to a half. A zero keeps the sign of `x`.
inline Half ToHalf(Wide x, Mode mode = Mode::kNearest) {
  const Wide rounded = RoundTo(kHalfFormat, x, mode);
  const auto value = static_cast<double>(rounded);  // Exact.
  if (std::isnan(value)) return {0x7fff};
  const std::uint16_t sign = std::signbit(static_cast<double>(x)) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  if (magnitude < 0x1p-14)
    return {static_cast<std::uint16_t>(sign | static_cast<int>(magnitude * 0x1p24))};
  const int exponent = std::ilogb(magnitude);
  const auto fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return {static_cast<std::uint16_t>(sign | (exponent + 15) << 10 | fraction)};
}
inline Bf16 ToBf16(Wide x, Mode mode = Mode::kNearest) {
  const auto value = static_cast<double>(RoundTo(kBf16Format, x, mode));
  if (std::isnan(value)) return {0x7fff};
  const auto single =
      static_cast<float>(std::signbit(static_cast<double>(x)) ? -std::fabs(value) : value);
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16)};
}
inline float ToFloat(Wide x, Mode mode = Mode::kNearest) {
  const auto value = static_cast<float>(RoundTo(kFloatFormat, x, mode));
  return std::signbit(static_cast<double>(x)) && value == 0 ? -0.0F : value;
}

// Replaces subnormal numbers by zeros of their sign.
inline float Flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
inline Half Flush(Half x) {
  return (x.bits & 0x7c00) == 0 ? Half{static_cast<std::uint16_t>(x.bits & 0x8000)} : x;
}
inline float FlushIf(bool flush, float x) { return flush ? Flush(x) : x; }
inline double FlushIf(bool, double x) { return x; }  // .ftz is for f32 alone.
template <typename T>
T Saturated(T x) {
  return !(x > 0) ? T{0} : x > 1 ? T{1} : x;
}

inline std::uint64_t Random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace cuspan::ptx_forms
