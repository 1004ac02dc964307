#include "proxy/softnccl/elements.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/small_float.h"

namespace cuspan::softnccl {
namespace {

// A native C++ type, with the interface of the types in small_float.h.
template <typename T>
struct Plain {
  using Bits = T;
  static T Value(T value) { return value; }
  static T From(T value) { return value; }
};

template <typename T>
T Combine(nccl::ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // At least 32 bits: narrower types would be promoted to signed int.
    using Unsigned = std::make_unsigned_t<std::common_type_t<T, int>>;
    switch (op) {
      case nccl::kProduct:
        return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
      case nccl::kMaximum:
        return std::max(a, b);
      case nccl::kMinimum:
        return std::min(a, b);
      default:
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
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

template <typename T>
T Divide(T sum, std::size_t count) {
  // The number of ranks may be more than an 8-bit type can hold.
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(count));
  } else {
    return sum / static_cast<T>(count);
  }
}

// Type used to compute an element.
template <typename Type>
using Computed = decltype(Type::Value({}));

template <typename Type>
Computed<Type> LoadAt(const std::byte* data, std::size_t index) {
  typename Type::Bits bits;
  std::memcpy(&bits, data + index * sizeof(bits), sizeof(bits));
  return Type::Value(bits);
}

template <typename Type>
void StoreAt(std::byte* data, std::size_t index, Computed<Type> value) {
  const typename Type::Bits bits = Type::From(value);
  std::memcpy(data + index * sizeof(bits), &bits, sizeof(bits));
}

// Calls `with` with a value of the type implementing `type`.
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
      return with(Bfloat16());
    case nccl::kFloat8E4M3:
      return with(Float8E4M3());
    case nccl::kFloat8E5M2:
      return with(Float8E5M2());
    case nccl::kDataTypes:
      return;
  }
}

}  // namespace

void Reduce(nccl::DataType type, nccl::ReduceOp op, std::span<const std::byte* const> inputs,
            std::byte* out, std::size_t count) {
  Dispatch(type, [&]<typename Type>(Type) {
    for (std::size_t i = 0; i < count; ++i) {
      Computed<Type> result = LoadAt<Type>(inputs[0], i);
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
