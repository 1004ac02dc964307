// Floating-point formats missing in C++: conversion of a number's bits to its value and back.
// Values are rounded to nearest, ties to even.
//
// bfloat16 is the upper half of a float. The 8-bit formats follow the "OCP 8-bit Floating Point
// Specification (OFP8)". Values too large for them become the largest finite number. A NaN has the
// same bits as on NVIDIA's devices.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace cuspan {

struct Half {
  using Bits = std::uint16_t;
  static float Value(Bits bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
  static Bits From(float value) { return std::bit_cast<Bits>(static_cast<_Float16>(value)); }
};

struct Bfloat16 {
  using Bits = std::uint16_t;
  static float Value(Bits bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }
  static Bits From(float value) {
    if (std::isnan(value)) return 0x7fff;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Bits>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
  }
};

// E4M3 has no infinities and one NaN.
template <int kMantissaBits, int kBias, bool kHasInfinity>
struct Float8 {
  using Bits = std::uint8_t;
  static constexpr Bits kNan = 0x7f;
  static constexpr float kLargest = kHasInfinity ? 57344 : 448;

  static float Value(Bits bits) {
    const unsigned magnitude = bits & 0x7fU;
    const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
    const auto exponent = static_cast<int>(magnitude >> kMantissaBits);
    const auto mantissa = static_cast<int>(magnitude & ((1U << kMantissaBits) - 1));
    if (kHasInfinity && exponent == 31) return mantissa != 0 ? std::nanf("") : sign * HUGE_VALF;
    if (!kHasInfinity && magnitude == kNan) return std::nanf("");
    const int hidden = exponent == 0 ? 0 : 1 << kMantissaBits;
    return sign * std::ldexp(static_cast<float>(mantissa + hidden),
                             std::max(exponent, 1) - kBias - kMantissaBits);
  }
  static Bits From(float value) {
    if (std::isnan(value)) return kNan;
    const Bits sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::min(std::fabs(value), kLargest);
    if (magnitude == 0) return sign;
    constexpr int kLowest = 1 - kBias;  // Exponent of the smallest normal number.
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
    const int power = std::max(exponent - 1, kLowest);
    // Units of the last place. A carry correctly increments the exponent.
    const auto units =
        static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - power)));
    return static_cast<Bits>(sign |
                             (units + (static_cast<unsigned>(power - kLowest) << kMantissaBits)));
  }
};
using Float8E4M3 = Float8<3, 7, false>;
using Float8E5M2 = Float8<2, 15, true>;

}  // namespace cuspan
