#include "proxy/ptx/types.h"

#include <iterator>

namespace cuspan::ptx {
namespace {

struct TypeFacts {
  std::string_view name;
  unsigned bits;
};

// Order: as in the enumeration.
constexpr TypeFacts kFacts[] = {
    {"", 0},        {"pred", 1},   {"b8", 8},     {"b16", 16},    {"b32", 32},    {"b64", 64},
    {"b128", 128},  {"u8", 8},     {"u16", 16},   {"u32", 32},    {"u64", 64},    {"s8", 8},
    {"s16", 16},    {"s32", 32},   {"s64", 64},   {"f16", 16},    {"f16x2", 32},  {"bf16", 16},
    {"bf16x2", 32}, {"u16x2", 32}, {"s16x2", 32}, {"e4m3x2", 16}, {"e5m2x2", 16}, {"tf32", 32},
    {"f32", 32},    {"f64", 64},
};

}  // namespace

Type TypeNamed(std::string_view name) {
  if (name.size() < 2 || name.size() > 7) return Type::kNone;
  for (unsigned i = 1; i < std::size(kFacts); ++i) {
    if (kFacts[i].name == name) return static_cast<Type>(i);
  }
  return Type::kNone;
}

std::string_view TypeName(Type type) { return kFacts[static_cast<unsigned>(type)].name; }

unsigned BitsOf(Type type) { return kFacts[static_cast<unsigned>(type)].bits; }

bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }

bool IsFloat(Type type) {
  return type == Type::kF16 || type == Type::kBf16 || type == Type::kTf32 || type == Type::kF32 ||
         type == Type::kF64;
}

bool IsPackedInteger(Type type) { return type == Type::kU16x2 || type == Type::kS16x2; }

bool IsPackedByte(Type type) { return type == Type::kE4m3x2 || type == Type::kE5m2x2; }

bool IsPacked(Type type) { return type == Type::kF16x2 || type == Type::kBf16x2; }

Type BitsType(unsigned bits) {
  switch (bits) {
    case 8:
      return Type::kB8;
    case 16:
      return Type::kB16;
    case 32:
      return Type::kB32;
    case 64:
      return Type::kB64;
    case 128:
      return Type::kB128;
    default:
      return Type::kNone;
  }
}

}  // namespace cuspan::ptx
