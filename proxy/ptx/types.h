// The fundamental types of PTX and what each of them is. (PTX ISA, "Types")
#pragma once

#include <cstdint>
#include <string_view>

namespace cuspan::ptx {

enum class Type : std::uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kU16x2,
  kS16x2,
  kE4m3x2,
  kE5m2x2,
  kTf32,
  kF32,
  kF64,
};

// The type that `name` (".f32" without its dot) denotes, or kNone.
Type TypeNamed(std::string_view name);
// Its name, without the dot.
std::string_view TypeName(Type type);

// Bits of a value; a predicate has 1, kNone has 0.
unsigned BitsOf(Type type);
// Bytes in memory; a predicate has none.
inline unsigned BytesOf(Type type) { return BitsOf(type) / 8; }

// .s8 … .s64.
bool IsSigned(Type type);
// .f16, .bf16, .tf32, .f32 and .f64: one floating-point number.
bool IsFloat(Type type);
// .f16x2 and .bf16x2: two of them.
bool IsPacked(Type type);
// .u16x2 and .s16x2
bool IsPackedInteger(Type type);
// .e4m3x2 and .e5m2x2: two numbers of 8 bits.
bool IsPackedByte(Type type);
// The .b type of `bits` (8, 16, 32, 64 or 128), else kNone.
Type BitsType(unsigned bits);

}  // namespace cuspan::ptx
