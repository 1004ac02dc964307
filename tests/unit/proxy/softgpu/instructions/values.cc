#include "tests/unit/proxy/softgpu/instructions/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using Values = std::vector<std::uint64_t>;

// Ordered by importance: the first values are combined most.
Values FloatEdges() {
  Values values;
  for (const float v : {0.0F,
                        1.0F,
                        -1.5F,
                        0x1p-149F,
                        std::numeric_limits<float>::max(),
                        0.1F,
                        0x1.fffffep-1F,
                        -0x1p-126F,
                        3.0F,
                        -0.0F,
                        2.5F,
                        0.5F,
                        -2.0F,
                        1e-20F,
                        1e20F,
                        0x1.000002p0F,
                        0x1.fffffep-127F,
                        -0x1.8p-148F,
                        16777217.0F,
                        2147483648.0F,
                        -2147483649.0F,
                        4294967296.0F,
                        9.3e18F,
                        -1e-10F,
                        100.25F,
                        254.5F,
                        -128.5F,
                        65504.0F,
                        65520.0F,
                        0x1p-25F,
                        0x1.004p0F,
                        0x1.01p0F,
                        3.14159265F})
    values.push_back(std::bit_cast<std::uint32_t>(v));
  values.insert(values.begin() + 2, 0x7f800000);  // Infinity
  values.insert(values.begin() + 4, 0x7fc00000);  // NaN
  values.insert(values.begin() + 10, 0xff800000);
  values.push_back(0xffc12345);
  return values;
}

Values DoubleEdges() {
  Values values;
  for (const double v : {0.0,
                         1.0,
                         -1.5,
                         0x1p-1074,
                         std::numeric_limits<double>::max(),
                         0.1,
                         -0x1.fffffffffffffp-1023,
                         0x1p-1022,
                         3.0,
                         -0.0,
                         2.5,
                         0.5,
                         -2.0,
                         1e-20,
                         1e20,
                         0x1.0000000000001p0,
                         0x1.fffffffffffffp-1,
                         0x1.00000001p0,
                         2147483647.5,
                         -2147483648.5,
                         4294967295.5,
                         9223372036854775808.0,
                         -9223372036854775808.0,
                         18446744073709551616.0,
                         0x1p-149,
                         1e39,
                         0x1.ffffffp127,
                         65519.999,
                         0x1.000001p0,
                         1e-45,
                         6e-8,
                         1e-39})
    values.push_back(std::bit_cast<std::uint64_t>(v));
  values.insert(values.begin() + 2, std::uint64_t{0x7ff} << 52);
  values.insert(values.begin() + 4, std::uint64_t{0x7ff8} << 48);
  values.insert(values.begin() + 10, std::uint64_t{0xfff} << 52);
  return values;
}

Values EdgesOf(Kind kind) {
  switch (kind) {
    case Kind::kPred:
      return {0, 1};
    case Kind::kAmount:
      return {0, 1, 5, 31, 32, 33, 8, 63, 64, 65, 127, 128, 255, 256, 0xffffffff, 16, 0x80000000};
    case Kind::kU16:
    case Kind::kS16:
      return {0, 1, 0xffff, 0x7fff, 0x8000, 2, 0x1234, 0xff, 0x80, 0xfffe, 0x8001, 31, 100, 0x5555};
    case Kind::kU32:
    case Kind::kS32:
      return {0,      1,          0xffffffff, 0x7fffffff, 0x80000000, 2,
              7,      0x12345678, 0xffff,     0x80000001, 0xfffffffe, 0xff,
              0x8000, 0xdeadbeef, 0x7f,       0x80,       31,         0x10000,
              1000,   0x55555555, 0x7fff,     0xff00ff00, 65535,      0xfffff000};
    case Kind::kU64:
    case Kind::kS64:
      return {0,
              1,
              ~std::uint64_t{0},
              ~std::uint64_t{0} >> 1,
              std::uint64_t{1} << 63,
              2,
              7,
              0x123456789abcdef0,
              0xffffffff,
              0x100000000,
              0x80000000,
              0xffffffff80000000,
              (std::uint64_t{1} << 63) + 1,
              0xfffffffffffffffe,
              0xdeadbeefcafef00d,
              1000,
              0xff,
              0x5555555555555555,
              0x1fffffffffffff,
              0x20000000000001,
              0x7fffff8000000001};
    case Kind::kHalf:
      return {0,      0x3c00, 0x7c00, 0xbe00, 0x7e00, 1,      0x7bff, 0x8000,
              0x3bff, 0x8400, 0xfc00, 0x3ff,  0x4200, 0x4100, 0xc000, 0x3c01,
              0x2e66, 0x8001, 0x0400, 0x1000, 0x5640, 0xf800, 0x0c00, 0x3555};
    case Kind::kBf16:
      return {0,      0x3f80, 0x7f80, 0xbfc0, 0x7fc0, 1,      0x7f7f, 0x8000,
              0x3dcd, 0x7f,   0xff80, 0x8080, 0x4040, 0x4020, 0xc000, 0x3f81,
              0x3f7f, 0x8001, 0x0080, 0x2000, 0x42c8, 0xff00, 0x3eab};
    case Kind::kHalf2:
    case Kind::kBf162: {
      const Values halves = EdgesOf(kind == Kind::kHalf2 ? Kind::kHalf : Kind::kBf16);
      Values values;
      for (std::size_t i = 0; i < halves.size(); ++i)
        values.push_back(halves[i] | halves[(i * 7 + 3) % halves.size()] << 16);
      return values;
    }
    case Kind::kFloat:
      return FloatEdges();
    case Kind::kDouble:
      return DoubleEdges();
  }
  return {};
}

// Returns random bits. Half of the floats have a moderate size.
std::uint64_t RandomOf(Kind kind, std::uint64_t& state) {
  const std::uint64_t bits = Random(state);
  const bool moderate = (Random(state) & 1) != 0;
  switch (kind) {
    case Kind::kPred:
      return bits & 1;
    case Kind::kAmount:
      return bits % 80;
    case Kind::kU16:
    case Kind::kS16:
    case Kind::kHalf:
    case Kind::kBf16:
      return bits & 0xffff;
    case Kind::kFloat:
      if (moderate) return (bits & 0x83ffffff) | 0x3c000000;
      return bits & 0xffffffff;
    case Kind::kDouble:
      if (moderate) return (bits & 0x803fffffffffffff) | 0x3fc0000000000000;
      return bits;
    case Kind::kU64:
    case Kind::kS64:
      return bits;
    default:
      return bits & 0xffffffff;
  }
}

// Adds inputs with results just below the smallest normal number 2^-126 (f16: 2^-14). There .ftz
// depends on the rounding.
void AddNearSmallestNormal(const Form& form, const std::function<void(const std::uint64_t*)>& add) {
  if (form.text.find(".ftz") == std::string::npos || !form.tolerance.exact()) return;
  const auto of_float = [](float x) -> std::uint64_t { return std::bit_cast<std::uint32_t>(x); };
  const auto of_half = [](double x) -> std::uint64_t { return ToHalf(static_cast<Wide>(x)).bits; };
  const auto both_signs = [&](std::vector<std::uint64_t> values, std::uint64_t sign) {
    values.resize(4);
    add(values.data());
    values[0] ^= sign;
    values[2] ^= form.inputs.size() == 3 ? sign : 0;
    add(values.data());
  };
  const std::size_t inputs = form.inputs.size();
  const Kind kind = form.inputs[0];
  constexpr std::uint64_t kFloatSign = 0x80000000, kHalfSign = 0x8000, kPairSign = 0x80008000;
  if (kind == Kind::kDouble) {
    for (int i = 0; i <= 16; ++i)
      both_signs({std::bit_cast<std::uint64_t>((1 - i * 0x1p-27) * 0x1p-126)},
                 std::uint64_t{1} << 63);
  }
  if (kind == Kind::kFloat && inputs == 1) {
    for (std::uint64_t i = 0; i < 4; ++i) both_signs({0x7e800000 + i}, kFloatSign);
  }
  if (kind == Kind::kFloat && inputs == 2) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const auto below_two = static_cast<float>(2 - i * 0x1p-23);
        const auto above_one = static_cast<float>(1 + j * 0x1p-23);
        both_signs({of_float(below_two / 2), of_float(above_one * 0x1p-126F)}, kFloatSign);
        both_signs({of_float(below_two * 0x1p-126F), of_float(above_one * 2)}, kFloatSign);
        both_signs({of_float(above_one * 0x1p-126F), of_float(below_two / 2)}, kFloatSign);
      }
    }
  }
  for (int i = 1; i <= 16; ++i) {
    for (int power = 0; power < 3; ++power) {
      if (kind == Kind::kFloat && inputs == 3)
        both_signs({of_float(0x1p-75F), of_float(std::ldexp(static_cast<float>(-i), power - 79)),
                    of_float(0x1p-126F)},
                   kFloatSign);
      const std::vector<std::uint64_t> halves = {
          of_half(0x1p-10), of_half(std::ldexp(-i, power - 18)), of_half(0x1p-14)};
      if (kind == Kind::kHalf && inputs == 3) both_signs(halves, kHalfSign);
      if (kind == Kind::kHalf2 && inputs == 3)
        both_signs({halves[0] * 0x10001, halves[1] * 0x10001, halves[2] * 0x10001}, kPairSign);
    }
    for (int j = 0; j < 4; ++j) {
      const std::vector<std::uint64_t> halves = {of_half(1 - i * 0x1p-11),
                                                 of_half((1 + j * 0x1p-10) * 0x1p-14)};
      if (kind == Kind::kHalf && inputs == 2) both_signs(halves, kHalfSign);
      if (kind == Kind::kHalf2 && inputs == 2)
        both_signs({halves[0] * 0x10001, halves[1] * 0x10001}, kPairSign);
    }
  }
}

struct Layout {
  int digits, exponent_bits;
};
Layout LayoutOf(Kind kind) {
  switch (kind) {
    case Kind::kHalf:
      return {10, 5};
    case Kind::kBf16:
      return {7, 8};
    case Kind::kFloat:
      return {23, 8};
    default:
      return {52, 11};
  }
}

bool IsFloating(Kind kind) {
  return kind == Kind::kHalf || kind == Kind::kBf16 || kind == Kind::kFloat ||
         kind == Kind::kDouble;
}

double ValueOf(Kind kind, std::uint64_t bits) {
  switch (kind) {
    case Kind::kHalf:
      return ToDouble(Half{static_cast<std::uint16_t>(bits)});
    case Kind::kBf16:
      return ToDouble(Bf16{static_cast<std::uint16_t>(bits)});
    case Kind::kFloat:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

}  // namespace

unsigned BitsOf(Kind kind) {
  switch (kind) {
    case Kind::kPred:
      return 1;
    case Kind::kU16:
    case Kind::kS16:
    case Kind::kHalf:
    case Kind::kBf16:
      return 16;
    case Kind::kU64:
    case Kind::kS64:
    case Kind::kDouble:
      return 64;
    default:
      return 32;
  }
}

const char* NameOf(Kind kind) {
  static const char* const kNames[] = {"pred", "u16",  "s16",   "u32",    "s32", "u64", "s64",
                                       "f16",  "bf16", "f16x2", "bf16x2", "f32", "f64", "u32"};
  return kNames[static_cast<int>(kind)];
}

std::vector<std::uint64_t> CasesOf(const Form& form, unsigned slots, std::size_t most) {
  std::vector<std::uint64_t> cases;
  const auto add = [&](const std::uint64_t* values) {
    if (form.defined && !form.defined(values)) return;
    cases.insert(cases.end(), values, values + slots);
  };
  const std::size_t inputs = form.inputs.size();
  // Number of edge values per input, chosen to limit the number of combinations.
  static constexpr std::size_t kEdges[] = {1, 64, 40, 14, 7};
  std::vector<Values> edges;
  for (const Kind kind : form.inputs) {
    edges.push_back(EdgesOf(kind));
    if (edges.back().size() > kEdges[inputs]) edges.back().resize(kEdges[inputs]);
  }
  AddNearSmallestNormal(form, add);
  std::uint64_t values[8] = {};
  std::size_t combinations = 1;
  for (const Values& e : edges) combinations *= e.size();
  for (std::size_t i = 0; i < combinations; ++i) {
    std::size_t rest = i;
    for (std::size_t k = 0; k < inputs; ++k) {
      values[k] = edges[k][rest % edges[k].size()];
      rest /= edges[k].size();
    }
    add(values);
  }
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < 512; ++i) {
    for (std::size_t k = 0; k < inputs; ++k) {
      const Values all = EdgesOf(form.inputs[k]);
      const bool edge = (Random(state) & 3) == 0;
      values[k] = edge ? all[Random(state) % all.size()] : RandomOf(form.inputs[k], state);
    }
    add(values);
  }
  if (cases.size() > most * slots) cases.resize(most * slots);
  return cases;
}

std::uint64_t Canonical(Kind kind, std::uint64_t value) {
  if (kind == Kind::kHalf2 || kind == Kind::kBf162) {
    const Kind half = kind == Kind::kHalf2 ? Kind::kHalf : Kind::kBf16;
    return Canonical(half, value & 0xffff) | Canonical(half, value >> 16 & 0xffff) << 16;
  }
  if (!IsFloating(kind)) return value;
  const Layout layout = LayoutOf(kind);
  const std::uint64_t magnitude =
      value & ((std::uint64_t{1} << (layout.digits + layout.exponent_bits)) - 1);
  const std::uint64_t infinity = ((std::uint64_t{1} << layout.exponent_bits) - 1) << layout.digits;
  return magnitude > infinity ? infinity | std::uint64_t{1} << (layout.digits - 1) : value;
}

bool Agrees(Kind kind, std::uint64_t got, std::uint64_t expected, const Tolerance& tolerance) {
  if (Canonical(kind, got) == Canonical(kind, expected)) return true;
  if (tolerance.exact()) return false;
  if (kind == Kind::kHalf2 || kind == Kind::kBf162) {
    const Kind half = kind == Kind::kHalf2 ? Kind::kHalf : Kind::kBf16;
    return Agrees(half, got & 0xffff, expected & 0xffff, tolerance) &&
           Agrees(half, got >> 16, expected >> 16, tolerance);
  }
  if (!IsFloating(kind)) return false;
  const double x = ValueOf(kind, got), y = ValueOf(kind, expected);
  if (std::isnan(x) || std::isnan(y)) return false;
  const Layout layout = LayoutOf(kind);
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  if (std::isinf(x) || std::isinf(y)) {
    // Near an overflow the largest number is one step away.
    const double largest = std::ldexp(2 - std::ldexp(1, -layout.digits), bias);
    const double finite = std::isinf(x) ? y : x;
    return tolerance.ulps > 0 && std::signbit(x) == std::signbit(y) && std::isfinite(finite) &&
           std::fabs(finite) >= largest * (1 - std::ldexp(tolerance.ulps, -layout.digits));
  }
  const double error = std::fabs(x - y);
  if (error <= tolerance.absolute || error <= tolerance.relative * std::fabs(y)) return true;
  const int exponent = y == 0 ? 1 - bias : std::max(std::ilogb(y), 1 - bias);
  return error <= tolerance.ulps * std::ldexp(1.0, exponent - layout.digits);
}

std::string Show(Kind kind, std::uint64_t value) {
  char text[80];
  const auto bits = static_cast<unsigned long long>(value);
  if (IsFloating(kind)) {
    std::snprintf(text, sizeof text, "%.9g (%#llx)", ValueOf(kind, value), bits);
  } else {
    std::snprintf(text, sizeof text, "%#llx", bits);
  }
  return text;
}

}  // namespace cuspan::ptx_forms
