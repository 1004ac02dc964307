#include "proxy/softgpu/jit/helpers.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/small_float.h"

namespace cuspan::softgpu {
namespace {

// Rounding control of MXCSR. (Intel SDM volume 1, 10.2.3)
enum class Mode : std::uint32_t { kNearest = 0x0000, kDown = 0x2000, kUp = 0x4000, kZero = 0x6000 };

// Prevents the compiler from moving computations with `value` across this point.
template <typename T>
void Pin(T& value) {
  if constexpr (std::is_integral_v<T>) {
    asm volatile("" : "+r"(value));
  } else {
    asm volatile("" : "+x"(value));
  }
}

// Runs operation(inputs…) in the given rounding mode.
template <Mode mode, typename Operation, typename... Inputs>
auto Rounded(Operation operation, Inputs... inputs) {
  constexpr std::uint32_t kRoundingBits = 0x6000;
  const std::uint32_t before = _mm_getcsr();
  _mm_setcsr((before & ~kRoundingBits) | static_cast<std::uint32_t>(mode));
  (Pin(inputs), ...);
  auto result = operation(inputs...);
  Pin(result);
  _mm_setcsr(before);
  return result;
}

template <typename T, Mode mode>
T Add(T x, T y) {
  return Rounded<mode>([](T a, T b) { return a + b; }, x, y);
}
template <typename T, Mode mode>
T Mul(T x, T y) {
  return Rounded<mode>([](T a, T b) { return a * b; }, x, y);
}
template <typename T, Mode mode>
T Div(T x, T y) {
  return Rounded<mode>([](T a, T b) { return a / b; }, x, y);
}
template <typename T, Mode mode>
T Sqrt(T x) {
  return Rounded<mode>([](T a) { return std::sqrt(a); }, x);
}
template <typename T, Mode mode>
T Fma(T x, T y, T z) {
  return Rounded<mode>([](T a, T b, T c) { return std::fma(a, b, c); }, x, y, z);
}

template <typename T, Mode mode>
T FromSigned(std::int64_t value) {
  return Rounded<mode>([](std::int64_t v) { return static_cast<T>(v); }, value);
}
template <typename T, Mode mode>
T FromUnsigned(std::uint64_t value) {
  if (value >> 63 == 0) return FromSigned<T, mode>(static_cast<std::int64_t>(value));
  // Converts half the value, with the lost bit kept as a sticky bit; doubling is exact.
  return FromSigned<T, mode>(static_cast<std::int64_t>(value >> 1 | (value & 1))) * 2;
}

float Sin(float x) { return std::sin(x); }
float Cos(float x) { return std::cos(x); }
float Exp2(float x) { return std::exp2(x); }
float Log2(float x) { return std::log2(x); }
float Tanh(float x) { return std::tanh(x); }

// fns of PTX: the offset-th set bit of `mask` at or above `base` (or below it for negative
// offsets); offset 0 tests bit `base` itself. Returns all ones without a match.
std::uint32_t FindNthSet(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  constexpr std::uint32_t kNone = 0xffffffff;
  if (base > 31) return kNone;
  if (offset == 0) return (mask >> base & 1) != 0 ? base : kNone;
  const int step = offset > 0 ? 1 : -1;
  std::int64_t wanted = std::llabs(std::int64_t{offset});
  for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1) != 0 && --wanted == 0) return static_cast<std::uint32_t>(bit);
  return kNone;
}

// Conversions called by compiled code. (PTX ISA, ".e4m3", ".e5m2")
template <typename Format>
std::uint32_t EncodeByte(float value) {
  return Format::From(value);
}
template <typename Format>
float DecodeByte(std::uint32_t bits) {
  return Format::Value(static_cast<std::uint8_t>(bits));
}

#define CUSPAN_MATH_MODES(name, function, type, suffix)                               \
  {"cuspan_math_" name "_rz_" suffix, AddressOf(&function<type, Mode::kZero>)},       \
      {"cuspan_math_" name "_rm_" suffix, AddressOf(&function<type, Mode::kDown>)}, { \
    "cuspan_math_" name "_rp_" suffix, AddressOf(&function<type, Mode::kUp>)          \
  }
#define CUSPAN_MATH_TYPES(name, function) \
  CUSPAN_MATH_MODES(name, function, float, "f32"), CUSPAN_MATH_MODES(name, function, double, "f64")

const HelperSymbol kMathSymbols[] = {
    CUSPAN_MATH_TYPES("add", Add),
    CUSPAN_MATH_TYPES("mul", Mul),
    CUSPAN_MATH_TYPES("div", Div),
    CUSPAN_MATH_TYPES("sqrt", Sqrt),
    CUSPAN_MATH_TYPES("fma", Fma),
    CUSPAN_MATH_MODES("cvt", FromSigned, float, "f32_s64"),
    CUSPAN_MATH_MODES("cvt", FromSigned, double, "f64_s64"),
    CUSPAN_MATH_MODES("cvt", FromUnsigned, float, "f32_u64"),
    CUSPAN_MATH_MODES("cvt", FromUnsigned, double, "f64_u64"),
    {"cuspan_math_sin_f32", AddressOf(&Sin)},
    {"cuspan_math_cos_f32", AddressOf(&Cos)},
    {"cuspan_math_ex2_f32", AddressOf(&Exp2)},
    {"cuspan_math_lg2_f32", AddressOf(&Log2)},
    {"cuspan_math_tanh_f32", AddressOf(&Tanh)},
    {"cuspan_math_encode_e4m3", AddressOf(&EncodeByte<Float8E4M3>)},
    {"cuspan_math_encode_e5m2", AddressOf(&EncodeByte<Float8E5M2>)},
    {"cuspan_math_decode_e4m3", AddressOf(&DecodeByte<Float8E4M3>)},
    {"cuspan_math_decode_e5m2", AddressOf(&DecodeByte<Float8E5M2>)},
    {"cuspan_math_find_nth_set", AddressOf(&FindNthSet)},
    // Functions called by LLVM itself for operations without a machine instruction.
    {"memcpy", AddressOf(&std::memcpy)},
    {"memmove", AddressOf(&std::memmove)},
    {"memset", AddressOf(&std::memset)},
    {"fmaf", AddressOf(static_cast<float (*)(float, float, float)>(&::fmaf))},
    {"fma", AddressOf(static_cast<double (*)(double, double, double)>(&::fma))},
    {"floorf", AddressOf(&::floorf)},
    {"floor", AddressOf(static_cast<double (*)(double)>(&::floor))},
    {"ceilf", AddressOf(&::ceilf)},
    {"ceil", AddressOf(static_cast<double (*)(double)>(&::ceil))},
    {"truncf", AddressOf(&::truncf)},
    {"trunc", AddressOf(static_cast<double (*)(double)>(&::trunc))},
    {"roundevenf", AddressOf(&::roundevenf)},
    {"roundeven", AddressOf(&::roundeven)},
};

#undef CUSPAN_MATH_TYPES
#undef CUSPAN_MATH_MODES

}  // namespace

std::span<const HelperSymbol> MathHelpers() { return kMathSymbols; }

}  // namespace cuspan::softgpu
