// Element types of memory reduced by bulk copies, and their reductions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan::softgpu {

// Same order as CUtensorMapDataType.
enum class Element : std::uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBf16,
  kF32Ftz,
  kTf32,
  kTf32Ftz,
};
inline constexpr unsigned kElements = 13;

unsigned BytesOf(Element element);
inline bool IsFloat(Element element) { return element >= Element::kF16; }

// Operations of cp.reduce.async.bulk.
enum class Reduction : std::uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

// True if PTX has the reduction for these elements. (PTX ISA, "cp.reduce.async.bulk")
bool MayReduce(Element element, Reduction reduction);

// Reduces `count` elements at `to` by those at `from`, each atomically. The elements must support
// the reduction; `to` is aligned for them.
void Reduce(Element element, Reduction reduction, std::uint8_t* to, const std::uint8_t* from,
            std::size_t count);

}  // namespace cuspan::softgpu
