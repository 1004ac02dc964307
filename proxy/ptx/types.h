// Fundamental types of PTX and their properties. (PTX ISA, "Types")
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

// Finds the type by `name` (".f32" without the dot); kNone if unknown.
Type TypeNamed(std::string_view name);
// Returns the name without the dot.
std::string_view TypeName(Type type);

// Bits of a value; 1 for a predicate, 0 for kNone.
unsigned BitsOf(Type type);
// Bytes in memory; 0 for a predicate.
inline unsigned BytesOf(Type type) { return BitsOf(type) / 8; }

// .s8 … .s64.
bool IsSigned(Type type);
// .f16, .bf16, .tf32, .f32 and .f64: one floating-point number.
bool IsFloat(Type type);
// .f16x2 and .bf16x2: two floating-point numbers.
bool IsPacked(Type type);
// .u16x2 and .s16x2
bool IsPackedInteger(Type type);
// .e4m3x2 and .e5m2x2: two numbers of 8 bits.
bool IsPackedByte(Type type);
// Returns the .b type of `bits` (8, 16, 32, 64 or 128), else kNone.
Type BitsType(unsigned bits);

}  // namespace cuspan::ptx
