#include "proxy/softgpu/rt/element.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/small_float.h"

namespace cuspan::softgpu {
namespace {

// Same interface as the formats of small_float.h.
template <typename T, typename Unsigned>
struct Plain {
  using Bits = Unsigned;
  static T Value(Bits bits) { return std::bit_cast<T>(bits); }
  static Bits From(T value) { return std::bit_cast<Bits>(value); }
};

// If one operand is NaN, returns the other.
template <typename T>
T Least(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(x, y);
  return std::min(x, y);
}
template <typename T>
T Largest(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(x, y);
  return std::max(x, y);
}

template <typename Format>
typename Format::Bits Reduced(Reduction reduction, typename Format::Bits old,
                              typename Format::Bits by) {
  using Bits = typename Format::Bits;
  using Value = decltype(Format::Value(old));
  switch (reduction) {
    case Reduction::kAdd:
      if constexpr (std::is_floating_point_v<Value>)
        return Format::From(Format::Value(old) + Format::Value(by));
      return static_cast<Bits>(old + by);
    case Reduction::kMin:
      return Format::From(Least<Value>(Format::Value(old), Format::Value(by)));
    case Reduction::kMax:
      return Format::From(Largest<Value>(Format::Value(old), Format::Value(by)));
    case Reduction::kInc:
      return old >= by ? Bits{0} : static_cast<Bits>(old + 1);
    case Reduction::kDec:
      return old == 0 || old > by ? by : static_cast<Bits>(old - 1);
    case Reduction::kAnd:
      return old & by;
    case Reduction::kOr:
      return old | by;
    case Reduction::kXor:
      return old ^ by;
  }
  return old;
}

template <typename Format>
void ReduceAll(Reduction reduction, std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  using Bits = typename Format::Bits;
  for (std::size_t i = 0; i < count; ++i) {
    Bits by = 0;
    std::memcpy(&by, from + i * sizeof by, sizeof by);
    const std::atomic_ref<Bits> target(*reinterpret_cast<Bits*>(to + i * sizeof by));
    Bits old = target.load(std::memory_order_relaxed);
    while (!target.compare_exchange_weak(old, Reduced<Format>(reduction, old, by),
                                         std::memory_order_relaxed)) {
    }
  }
}

}  // namespace

unsigned BytesOf(Element element) {
  switch (element) {
    case Element::kU8:
      return 1;
    case Element::kU16:
    case Element::kF16:
    case Element::kBf16:
      return 2;
    case Element::kU64:
    case Element::kS64:
    case Element::kF64:
      return 8;
    default:
      return 4;
  }
}

bool MayReduce(Element element, Reduction reduction) {
  if (element < Element::kU32 || element > Element::kBf16) return false;
  switch (reduction) {
    case Reduction::kAdd:
      return true;
    case Reduction::kMin:
    case Reduction::kMax:
      return element != Element::kF32 && element != Element::kF64;
    case Reduction::kInc:
    case Reduction::kDec:
      return element == Element::kU32;
    default:
      return !IsFloat(element);
  }
}

void Reduce(Element element, Reduction reduction, std::uint8_t* to, const std::uint8_t* from,
            std::size_t count) {
  switch (element) {
    case Element::kU32:
      return ReduceAll<Plain<std::uint32_t, std::uint32_t>>(reduction, to, from, count);
    case Element::kS32:
      return ReduceAll<Plain<std::int32_t, std::uint32_t>>(reduction, to, from, count);
    case Element::kU64:
      return ReduceAll<Plain<std::uint64_t, std::uint64_t>>(reduction, to, from, count);
    case Element::kS64:
      return ReduceAll<Plain<std::int64_t, std::uint64_t>>(reduction, to, from, count);
    case Element::kF16:
      return ReduceAll<Half>(reduction, to, from, count);
    case Element::kBf16:
      return ReduceAll<Bfloat16>(reduction, to, from, count);
    case Element::kF32:
      return ReduceAll<Plain<float, std::uint32_t>>(reduction, to, from, count);
    case Element::kF64:
      return ReduceAll<Plain<double, std::uint64_t>>(reduction, to, from, count);
    default:
      return;
  }
}

}  // namespace cuspan::softgpu
