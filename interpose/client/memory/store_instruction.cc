#include "interpose/client/memory/store_instruction.h"

#include <algorithm>
#include <array>
#include <cstring>

// Opcode numbers and encodings are those of the Intel 64 and IA-32 Software Developer's Manual,
// volume 2, chapters 2 (instruction format) and 3 to 5 (instructions).

namespace cuspan {
namespace {

using Kind = StoreInstruction::Kind;

constexpr unsigned kRax = 0;
constexpr unsigned kRcx = 1;
constexpr unsigned kRbx = 3;
constexpr unsigned kRsp = 4;
constexpr unsigned kRdi = 7;
constexpr unsigned kNoRegister = 16;

enum class Encoding { kLegacy, kVex, kEvex };
// Opcode maps: one byte, 0F, 0F 38, 0F 3A.
constexpr unsigned kMapOne = 0;
constexpr unsigned kMap0f = 1;
constexpr unsigned kMap38 = 2;
constexpr unsigned kMap3a = 3;
// pp field of VEX and EVEX, and the last of the equivalent legacy prefixes.
constexpr unsigned kPrefix66 = 1;
constexpr unsigned kPrefixF3 = 2;
constexpr unsigned kPrefixF2 = 3;

struct Prefixes {
  Encoding encoding = Encoding::kLegacy;
  unsigned map = kMapOne;
  unsigned pp = 0;
  bool operand16 = false;
  bool locked = false;
  bool repeated = false;
  bool rex = false;
  bool wide = false;
  unsigned extend_reg = 0;     // 0 or 8.
  unsigned extend_vector = 0;  // 0 or 16, of vector registers.
  unsigned extend_index = 0;   // 0 or 8.
  unsigned extend_base = 0;    // 0 or 8.
  unsigned vector_bytes = 16;
  unsigned mask = 0;
};

// Returns the address of the opcode; null if a prefix is not supported.
const unsigned char* ReadVex(const unsigned char* code, Prefixes* prefixes) {
  prefixes->encoding = Encoding::kVex;
  const bool three = code[0] == 0xc4;
  prefixes->extend_reg = (code[1] & 0x80) != 0 ? 0 : 8;
  prefixes->map = kMap0f;
  if (three) {
    prefixes->extend_index = (code[1] & 0x40) != 0 ? 0 : 8;
    prefixes->extend_base = (code[1] & 0x20) != 0 ? 0 : 8;
    prefixes->map = code[1] & 0x1f;
    prefixes->wide = (code[2] & 0x80) != 0;
  }
  const unsigned last = code[three ? 2 : 1];
  prefixes->pp = last & 3;
  prefixes->vector_bytes = (last & 4) != 0 ? 32 : 16;
  return code + (three ? 3 : 2);
}

const unsigned char* ReadEvex(const unsigned char* code, Prefixes* prefixes) {
  prefixes->encoding = Encoding::kEvex;
  // Not supported: base registers above 15, and broadcasts.
  if ((code[1] & 0x08) != 0 || (code[3] & 0x10) != 0) return nullptr;
  prefixes->mask = code[3] & 7;
  prefixes->extend_reg = (code[1] & 0x80) != 0 ? 0 : 8;
  prefixes->extend_vector = (code[1] & 0x10) != 0 ? 0 : 16;
  prefixes->extend_index = (code[1] & 0x40) != 0 ? 0 : 8;
  prefixes->extend_base = (code[1] & 0x20) != 0 ? 0 : 8;
  prefixes->map = code[1] & 7;
  prefixes->wide = (code[2] & 0x80) != 0;
  prefixes->pp = code[2] & 3;
  const unsigned length = code[3] >> 5 & 3;
  if (length == 3) return nullptr;
  prefixes->vector_bytes = 16U << length;
  return code + 4;
}

const unsigned char* ReadPrefixes(const unsigned char* code, Prefixes* prefixes) {
  constexpr int kMaxPrefixes = 14;
  for (int i = 0; i < kMaxPrefixes; ++i, ++code) {
    switch (*code) {
      case 0x66:
        prefixes->operand16 = true;
        if (prefixes->pp == 0) prefixes->pp = kPrefix66;
        continue;
      case 0xf2:
        prefixes->pp = kPrefixF2;
        prefixes->repeated = true;
        continue;
      case 0xf3:
        prefixes->pp = kPrefixF3;
        prefixes->repeated = true;
        continue;
      case 0xf0:
        prefixes->locked = true;
        continue;
      case 0x26:
      case 0x2e:
      case 0x36:
      case 0x3e:  // Segments ignored by 64-bit code.
        continue;
      case 0x64:
      case 0x65:
      case 0x67:
        return nullptr;
      case 0xc4:
      case 0xc5:
        return ReadVex(code, prefixes);
      case 0x62:
        return ReadEvex(code, prefixes);
      default:
        break;
    }
    break;
  }
  if ((*code & 0xf0) == 0x40) {
    prefixes->rex = true;
    prefixes->wide = (*code & 8) != 0;
    prefixes->extend_reg = (*code & 4) != 0 ? 8 : 0;
    prefixes->extend_index = (*code & 2) != 0 ? 8 : 0;
    prefixes->extend_base = (*code & 1) != 0 ? 8 : 0;
    ++code;
  }
  if (*code != 0x0f) return code;
  ++code;
  prefixes->map = *code == 0x38 ? kMap38 : *code == 0x3a ? kMap3a : kMap0f;
  return prefixes->map == kMap0f ? code : code + 1;
}

// Operands of an instruction with a ModRM byte.
struct Operands {
  unsigned base = kNoRegister;
  unsigned reg = 0;     // Including its extension.
  unsigned length = 0;  // Bytes of ModRM, SIB and displacement.
};

// Returns false unless the address is relative to a base register used for nothing else.
bool ReadOperands(const unsigned char* modrm, const Prefixes& prefixes, Operands* operands) {
  const unsigned mod = *modrm >> 6;
  const unsigned rm = *modrm & 7;
  operands->reg = (*modrm >> 3 & 7) + prefixes.extend_reg;
  if (mod == 3) return false;
  operands->length = 1 + (rm == 4 ? 1 : 0) + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
  if (rm != 4) {
    if (mod == 0 && rm == 5) return false;  // Relative to rip.
    operands->base = rm + prefixes.extend_base;
    return true;
  }
  const unsigned base = modrm[1] & 7;
  const unsigned index = (modrm[1] >> 3 & 7) + prefixes.extend_index;
  if (base == 5 && mod == 0) return false;
  operands->base = base + prefixes.extend_base;
  return operands->base != kRsp && (index == kRsp || index != operands->base);
}

unsigned OperandBytes(const Prefixes& prefixes) {
  return prefixes.wide ? 8 : prefixes.operand16 ? 2 : 4;
}

// True if the general register `reg` of an operand of `bytes` bytes is, or is a part of, `base`.
bool IsBase(unsigned reg, unsigned bytes, const Prefixes& prefixes, unsigned base) {
  // Without REX, numbers 4 to 7 are ah, ch, dh and bh.
  if (bytes == 1 && !prefixes.rex && reg >= 4 && reg < 8) reg -= 4;
  return reg == base;
}

struct Store {
  Kind kind = Kind::kUnknown;
  unsigned bytes = 0;
  unsigned element = 0;  // Size of elements selectable by a mask; 0: none.
};

Store OneByteGroup(unsigned opcode, unsigned bytes, unsigned digit, unsigned base) {
  switch (opcode & ~1U) {
    case 0x80:
    case 0x82:
      return digit == 7 ? Store{} : Store{Kind::kUpdate, bytes};  // Not cmp.
    case 0xc0:
    case 0xd0:
      return {Kind::kUpdate, bytes};
    case 0xd2:  // The count is in cl.
      return base == kRcx ? Store{} : Store{Kind::kUpdate, bytes};
    case 0xc6:
      return digit == 0 ? Store{Kind::kStore, bytes} : Store{};
    case 0xf6:
      return digit == 2 || digit == 3 ? Store{Kind::kUpdate, bytes} : Store{};
    case 0xfe:
      return digit < 2 ? Store{Kind::kUpdate, bytes} : Store{};
    default:
      return {};
  }
}

Store FloatingPoint(unsigned opcode, unsigned digit) {
  // Bytes by digit of the stores of each opcode; 0: no store, or another one.
  constexpr std::array<std::array<unsigned char, 8>, 4> kBytes{{
      {0, 0, 4, 4, 0, 0, 0, 2},   // D9
      {0, 4, 4, 4, 0, 0, 0, 10},  // DB
      {0, 8, 8, 8, 0, 0, 0, 2},   // DD
      {0, 2, 2, 2, 0, 0, 10, 8},  // DF
  }};
  const unsigned bytes = kBytes[(opcode - 0xd9) / 2][digit];
  return bytes == 0 ? Store{} : Store{Kind::kStore, bytes};
}

Store OneByte(unsigned opcode, const Prefixes& prefixes, const Operands& operands, unsigned digit) {
  const unsigned bytes = (opcode & 1) == 0 ? 1 : OperandBytes(prefixes);
  const bool uses_base = IsBase(operands.reg, bytes, prefixes, operands.base);
  if (opcode < 0x38 && (opcode & 7) < 2) return uses_base ? Store{} : Store{Kind::kUpdate, bytes};
  switch (opcode) {
    case 0x86:
    case 0x87:
      return uses_base ? Store{} : Store{Kind::kUpdate, bytes};
    case 0x88:
    case 0x89:
      return uses_base ? Store{} : Store{Kind::kStore, bytes};
    case 0xd9:
    case 0xdb:
    case 0xdd:
    case 0xdf:
      return FloatingPoint(opcode, digit);
    default:
      return OneByteGroup(opcode, bytes, digit, operands.base);
  }
}

// Moves of vector registers; VEX and EVEX share their opcodes.
Store VectorMove(unsigned opcode, const Prefixes& prefixes) {
  const unsigned pp = prefixes.pp;
  const bool legacy = prefixes.encoding == Encoding::kLegacy;
  const unsigned element = prefixes.wide ? 8 : 4;
  const auto store = [](unsigned bytes) { return Store{Kind::kStore, bytes}; };
  const auto vector = [&] { return Store{Kind::kStore, prefixes.vector_bytes, element}; };
  switch (opcode) {
    case 0x11:
      return pp == kPrefixF3 ? store(4) : pp == kPrefixF2 ? store(8) : vector();
    case 0x13:
    case 0x17:
      return pp <= kPrefix66 ? store(8) : Store{};
    case 0x29:
      return pp <= kPrefix66 ? vector() : Store{};
    case 0x2b:
      return pp <= kPrefix66 ? store(prefixes.vector_bytes) : Store{};
    case 0x7e:
      return pp == kPrefix66 || (legacy && pp == 0) ? store(element) : Store{};
    case 0x7f:
      if (pp == 0) return legacy ? store(8) : Store{};
      if (pp != kPrefixF2) return vector();
      return prefixes.encoding == Encoding::kEvex
                 ? Store{Kind::kStore, prefixes.vector_bytes, element / 4}
                 : Store{};
    case 0xd6:
      return pp == kPrefix66 ? store(8) : Store{};
    case 0xe7:
      if (pp == 0) return legacy ? store(8) : Store{};
      return pp == kPrefix66 ? store(prefixes.vector_bytes) : Store{};
    default:
      return {};
  }
}

Store TwoByte(unsigned opcode, const Prefixes& prefixes, const Operands& operands, unsigned digit) {
  if (prefixes.encoding != Encoding::kLegacy) return VectorMove(opcode, prefixes);
  const unsigned bytes = OperandBytes(prefixes);
  const bool uses_base = IsBase(operands.reg, bytes, prefixes, operands.base);
  if (opcode >= 0x90 && opcode <= 0x9f) return {Kind::kStore, 1};  // setcc
  switch (opcode) {
    case 0xb0:
    case 0xb1:
    case 0xc0:
    case 0xc1: {  // cmpxchg, xadd
      const unsigned size = (opcode & 1) == 0 ? 1 : bytes;
      if (IsBase(operands.reg, size, prefixes, operands.base)) return {};
      if (opcode <= 0xb1 && operands.base == kRax) return {};
      return {Kind::kUpdate, size};
    }
    case 0xab:
    case 0xb3:
    case 0xbb:  // bts, btr, btc
      return uses_base ? Store{} : Store{Kind::kUpdate, bytes};
    case 0xba:
      return digit >= 5 ? Store{Kind::kUpdate, bytes} : Store{};
    case 0xc3:  // movnti
      return uses_base || prefixes.pp != 0 ? Store{} : Store{Kind::kStore, bytes};
    case 0xc7:  // cmpxchg8b, cmpxchg16b: rax, rbx, rcx and rdx are operands.
      if (digit != 1 || operands.base <= kRbx) return {};
      return {Kind::kUpdate, prefixes.wide ? 16U : 8U};
    default:
      return VectorMove(opcode, prefixes);
  }
}

// Extractions from vector registers.
Store Extraction(unsigned opcode, const Prefixes& prefixes) {
  const bool legacy = prefixes.encoding == Encoding::kLegacy;
  if (prefixes.pp != kPrefix66) return {};
  switch (opcode) {
    case 0x14:
      return {Kind::kStore, 1};
    case 0x15:
      return {Kind::kStore, 2};
    case 0x16:
      return {Kind::kStore, prefixes.wide ? 8U : 4U};
    case 0x17:
      return {Kind::kStore, 4};
    case 0x19:
    case 0x39:
      return legacy ? Store{} : Store{Kind::kStore, 16};
    case 0x1b:
    case 0x3b:
      return prefixes.encoding == Encoding::kEvex ? Store{Kind::kStore, 32} : Store{};
    default:
      return {};
  }
}

// Returns the number of bytes after the address operand of a known instruction.
unsigned ImmediateBytes(unsigned opcode, const Prefixes& prefixes) {
  if (prefixes.map == kMap3a) return 1;
  if (prefixes.map == kMap0f)
    return prefixes.encoding == Encoding::kLegacy && opcode == 0xba ? 1 : 0;
  if (prefixes.map != kMapOne) return 0;
  switch (opcode) {
    case 0x80:
    case 0x82:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
      return 1;
    case 0x81:
    case 0xc7:
      return std::min(OperandBytes(prefixes), 4U);
    default:
      return 0;
  }
}

void FindSource(unsigned opcode, const Prefixes& prefixes, const Operands& operands,
                const unsigned char* immediate, StoreInstruction* out) {
  using Source = StoreInstruction::Source;
  const auto set = [&](Source source, unsigned number) {
    out->source = source;
    out->number = static_cast<std::uint8_t>(number);
  };
  if (prefixes.map == kMapOne) {
    if (opcode == 0x88 && !prefixes.rex && operands.reg >= 4 && operands.reg < 8) {
      set(Source::kHighByte, operands.reg - 4);
    } else if (opcode == 0x88 || opcode == 0x89) {
      set(Source::kGeneral, operands.reg);
    } else if (opcode == 0xc6) {
      set(Source::kImmediate, 0);
      out->immediate = *immediate;  // One byte is stored.
    } else if (opcode == 0xc7) {
      set(Source::kImmediate, 0);
      std::memcpy(&out->immediate, immediate, std::min(OperandBytes(prefixes), 4U));
    }
    return;
  }
  if (prefixes.map != kMap0f || prefixes.mask != 0) return;
  const bool legacy = prefixes.encoding == Encoding::kLegacy;
  const unsigned vector = operands.reg + prefixes.extend_vector;
  switch (opcode) {
    case 0x11:
    case 0x13:
    case 0x29:
    case 0x2b:
    case 0xd6:
      set(Source::kVector, vector);
      return;
    case 0x17:
      set(Source::kHighHalf, vector);
      return;
    case 0x7e:
    case 0x7f:
    case 0xe7:  // MMX if without a prefix.
      if (prefixes.pp != 0) set(Source::kVector, vector);
      return;
    case 0xc3:
      if (legacy) set(Source::kGeneral, operands.reg);
      return;
    default:
      return;
  }
}

StoreInstruction String(unsigned opcode, const Prefixes& prefixes, std::size_t length) {
  StoreInstruction out;
  out.kind = opcode >= 0xaa ? Kind::kFill : Kind::kCopy;
  out.bytes = static_cast<std::uint8_t>((opcode & 1) == 0 ? 1 : OperandBytes(prefixes));
  out.base = kRdi;
  out.repeated = prefixes.repeated;
  out.length = static_cast<std::uint8_t>(length);
  return out;
}

}  // namespace

StoreInstruction DecodeStore(const unsigned char* code) {
  Prefixes prefixes;
  const unsigned char* const at = ReadPrefixes(code, &prefixes);
  if (at == nullptr) return {};
  const unsigned opcode = *at;
  const bool legacy = prefixes.encoding == Encoding::kLegacy;
  if (prefixes.map == kMapOne &&
      (opcode == 0xa4 || opcode == 0xa5 || opcode == 0xaa || opcode == 0xab))
    return String(opcode, prefixes, static_cast<std::size_t>(at + 1 - code));
  Operands operands;
  Store store;
  if (!ReadOperands(at + 1, prefixes, &operands)) return {};
  const unsigned digit = operands.reg & 7;
  switch (prefixes.map) {
    case kMapOne:
      store = OneByte(opcode, prefixes, operands, digit);
      break;
    case kMap0f:
      store = TwoByte(opcode, prefixes, operands, digit);
      break;
    case kMap38:  // movbe
      if (legacy && opcode == 0xf1 && prefixes.pp <= kPrefix66 && operands.reg != operands.base)
        store = {Kind::kStore, OperandBytes(prefixes)};
      break;
    case kMap3a:
      // They write no general register, and their register number is a vector register's.
      store = Extraction(opcode, prefixes);
      break;
    default:
      break;
  }
  StoreInstruction out;
  if (prefixes.mask != 0 && store.element == 0) return out;
  out.mask = static_cast<std::uint8_t>(prefixes.mask);
  out.element = static_cast<std::uint8_t>(store.element);
  out.kind = store.kind;
  out.bytes = static_cast<std::uint8_t>(store.bytes);
  out.base = static_cast<std::uint8_t>(operands.base);
  out.fences = prefixes.locked || (prefixes.map == kMapOne && legacy && (opcode & ~1U) == 0x86);
  const unsigned char* const behind = at + 1 + operands.length;
  const unsigned immediate = ImmediateBytes(opcode, prefixes);
  out.length = static_cast<std::uint8_t>(behind + immediate - code);
  if (out.kind == Kind::kStore) FindSource(opcode, prefixes, operands, behind, &out);
  return out;
}

}  // namespace cuspan
