#include "proxy/softnccl/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace cuspan::softnccl {
namespace {

// Each type below says how an element is stored, and as what it is computed.

template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T Load(T value) { return value; }
  static T Store(T value) { return value; }
};

struct Half {
  using Stored = _Float16;
  using Computed = float;
  static float Load(_Float16 value) { return static_cast<float>(value); }
  static _Float16 Store(float value) { return static_cast<_Float16>(value); }
};

// The upper half of a float.
struct Brain {
  using Stored = std::uint16_t;
  using Computed = float;
  static float Load(std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U);
  }
  static std::uint16_t Store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    // A NaN stays one: what is cut off may be all of its fraction.
    if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
  }
};

// A sign, kExponentBits with a bias of half their range, and a fraction: the formats of "OCP 8-bit
// Floating Point Specification (OFP8)", whose E4M3 has no infinities and one NaN.
template <int kExponentBits>
struct Float8 {
  using Stored = std::uint8_t;
  using Computed = float;
  static constexpr int kFractionBits = 7 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint8_t kSign = 0x80;
  static constexpr std::uint8_t kNan = 0x7f;
  // The last code without a sign that stands for a number.
  static constexpr std::uint8_t kLargest = kExponentBits == 4 ? 0x7e : 0x7b;

  static float Magnitude(std::uint8_t code) {
    const int exponent = code >> kFractionBits;
    const int fraction = code & ((1 << kFractionBits) - 1);
    if (exponent == 0) return std::ldexp(static_cast<float>(fraction), 1 - kBias - kFractionBits);
    return std::ldexp(static_cast<float>(fraction + (1 << kFractionBits)),
                      exponent - kBias - kFractionBits);
  }
  static const std::array<float, kLargest + 1>& Magnitudes() {
    static const auto kMagnitudes = [] {
      std::array<float, kLargest + 1> magnitudes{};
      for (int code = 0; code <= kLargest; ++code)
        magnitudes[code] = Magnitude(static_cast<std::uint8_t>(code));
      return magnitudes;
    }();
    return kMagnitudes;
  }
  static float Load(std::uint8_t value) {
    const std::uint8_t code = value & 0x7f;
    float magnitude = std::numeric_limits<float>::quiet_NaN();
    if (code <= kLargest)
      magnitude = Magnitudes()[code];
    else if (kExponentBits == 5 && code == kLargest + 1)
      magnitude = std::numeric_limits<float>::infinity();
    return (value & kSign) != 0 ? -magnitude : magnitude;
  }
  static std::uint8_t Store(float value) {
    const std::uint8_t sign = std::signbit(value) ? kSign : 0;
    if (std::isnan(value)) return sign | kNan;
    const float magnitude = std::abs(value);
    const auto& all = Magnitudes();
    // The codes go up with what they stand for. An odd one wins no tie.
    const auto above = std::lower_bound(all.begin(), all.end(), magnitude);
    if (above == all.end()) return sign | kLargest;
    auto code = static_cast<std::uint8_t>(above - all.begin());
    if (code > 0) {
      const float up = *above - magnitude, down = magnitude - all[code - 1];
      if (down < up || (down == up && code % 2 == 1)) --code;
    }
    return sign | code;
  }
};

template <typename Computed>
Computed Combine(nccl::ReduceOp op, Computed a, Computed b) {
  if constexpr (std::is_integral_v<Computed>) {
    // Of 32 bits at least: narrower ones would become signed again.
    using Unsigned = std::make_unsigned_t<std::common_type_t<Computed, int>>;
    switch (op) {
      case nccl::kProduct:
        return static_cast<Computed>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
      case nccl::kMaximum:
        return std::max(a, b);
      case nccl::kMinimum:
        return std::min(a, b);
      default:
        return static_cast<Computed>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    }
  } else {
    switch (op) {
      case nccl::kProduct:
        return a * b;
      case nccl::kMaximum:
        return std::fmax(a, b);
      case nccl::kMinimum:
        return std::fmin(a, b);
      default:
        return a + b;
    }
  }
}

template <typename Computed>
Computed Divide(Computed sum, std::size_t count) {
  // The number of ranks may be more than an 8-bit type can hold.
  if constexpr (std::is_integral_v<Computed>) {
    using Wide = std::conditional_t<std::is_signed_v<Computed>, std::int64_t, std::uint64_t>;
    return static_cast<Computed>(static_cast<Wide>(sum) / static_cast<Wide>(count));
  } else {
    return sum / static_cast<Computed>(count);
  }
}

template <typename Type>
typename Type::Computed LoadAt(const std::byte* data, std::size_t index) {
  typename Type::Stored value;
  std::memcpy(&value, data + index * sizeof(value), sizeof(value));
  return Type::Load(value);
}

template <typename Type>
void StoreAt(std::byte* data, std::size_t index, typename Type::Computed computed) {
  const typename Type::Stored value = Type::Store(computed);
  std::memcpy(data + index * sizeof(value), &value, sizeof(value));
}

// Calls `with` with a value of the type that computes with elements of `type`.
template <typename With>
void Dispatch(nccl::DataType type, With with) {
  switch (type) {
    case nccl::kInt8:
      return with(Plain<std::int8_t>());
    case nccl::kUint8:
      return with(Plain<std::uint8_t>());
    case nccl::kInt32:
      return with(Plain<std::int32_t>());
    case nccl::kUint32:
      return with(Plain<std::uint32_t>());
    case nccl::kInt64:
      return with(Plain<std::int64_t>());
    case nccl::kUint64:
      return with(Plain<std::uint64_t>());
    case nccl::kFloat16:
      return with(Half());
    case nccl::kFloat32:
      return with(Plain<float>());
    case nccl::kFloat64:
      return with(Plain<double>());
    case nccl::kBfloat16:
      return with(Brain());
    case nccl::kFloat8E4M3:
      return with(Float8<4>());
    case nccl::kFloat8E5M2:
      return with(Float8<5>());
    case nccl::kDataTypes:
      return;
  }
}

}  // namespace

void Reduce(nccl::DataType type, nccl::ReduceOp op, std::span<const std::byte* const> inputs,
            std::byte* out, std::size_t count) {
  Dispatch(type, [&]<typename Type>(Type) {
    using Computed = typename Type::Computed;
    for (std::size_t i = 0; i < count; ++i) {
      Computed result = LoadAt<Type>(inputs[0], i);
      for (const std::byte* const input : inputs.subspan(1))
        result = Combine(op, result, LoadAt<Type>(input, i));
      if (op == nccl::kAverage) result = Divide(result, inputs.size());
      StoreAt<Type>(out, i, result);
    }
  });
}

void Multiply(nccl::DataType type, const std::byte* factor, std::byte* data, std::size_t count) {
  Dispatch(type, [&]<typename Type>(Type) {
    const auto multiplier = LoadAt<Type>(factor, 0);
    for (std::size_t i = 0; i < count; ++i)
      StoreAt<Type>(data, i, Combine(nccl::kProduct, LoadAt<Type>(data, i), multiplier));
  });
}

}  // namespace cuspan::softnccl
