// Integer, logic, shift and carry instructions. (PTX ISA, "Integer Arithmetic
// Instructions", "Logic and Shift Instructions", "Extended-Precision …")
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "tests/unit/proxy/softgpu/instructions/forms.h"

namespace cuspan::ptx_forms {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Arithmetic wraps around.
template <typename T>
T Wrap(__int128 value) {
  return static_cast<T>(static_cast<Unsigned<T>>(value));
}

template <typename T>
T SaturatedTo(__int128 value) {
  return static_cast<T>(
      std::clamp<__int128>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

template <typename T>
void AddArithmetic(FormList& list, const std::string& t) {
  constexpr int kBits = sizeof(T) * 8;
  list.Add("add." + t + " d, a, b;", [](T a, T b) { return Wrap<T>(__int128{a} + b); });
  list.Add("sub." + t + " d, a, b;", [](T a, T b) { return Wrap<T>(__int128{a} - b); });
  list.Add("mul.lo." + t + " d, a, b;",
           [](T a, T b) { return Wrap<T>(static_cast<__int128>(a) * b); });
  list.Add("mul.hi." + t + " d, a, b;", [](T a, T b) {
    if constexpr (std::is_unsigned_v<T>) {
      return static_cast<T>(static_cast<unsigned __int128>(a) * b >> kBits);
    } else {
      return static_cast<T>(static_cast<__int128>(a) * b >> kBits);
    }
  });
  list.Add("mad.lo." + t + " d, a, b, c;",
           [](T a, T b, T c) { return Wrap<T>(static_cast<__int128>(a) * b + c); });
  list.Add("mad.hi." + t + " d, a, b, c;", [](T a, T b, T c) {
    if constexpr (std::is_unsigned_v<T>) {
      return static_cast<T>((static_cast<unsigned __int128>(a) * b >> kBits) + c);
    } else {
      return Wrap<T>((static_cast<__int128>(a) * b >> kBits) + c);
    }
  });
  // Division by zero, and of the smallest number by -1, is undefined.
  const auto divisible = When<T, T>([](T a, T b) {
    return b != 0 &&
           !(std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1));
  });
  list.Add("div." + t + " d, a, b;", [](T a, T b) { return static_cast<T>(a / b); }).defined =
      divisible;
  list.Add("rem." + t + " d, a, b;", [](T a, T b) { return static_cast<T>(a % b); }).defined =
      divisible;
  list.Add("min." + t + " d, a, b;", [](T a, T b) { return std::min(a, b); });
  list.Add("max." + t + " d, a, b;", [](T a, T b) { return std::max(a, b); });
  if constexpr (std::is_signed_v<T>) {
    list.Add("abs." + t + " d, a;", [](T a) { return Wrap<T>(a < 0 ? -__int128{a} : a); });
    list.Add("neg." + t + " d, a;", [](T a) { return Wrap<T>(-__int128{a}); });
  }
  list.Add("sad." + t + " d, a, b, c;", [](T a, T b, T c) {
    return Wrap<T>(__int128{c} + (a < b ? __int128{b} - a : __int128{a} - b));
  });
}

template <typename T, typename W>
void AddWide(FormList& list, const std::string& t) {
  list.Add("mul.wide." + t + " d, a, b;", [](T a, T b) { return static_cast<W>(W{a} * W{b}); });
  list.Add("mad.wide." + t + " d, a, b, c;",
           [](T a, T b, W c) { return Wrap<W>(static_cast<__int128>(a) * b + c); });
}

template <typename T>
void AddLogic(FormList& list, const std::string& t) {
  list.Add("and." + t + " d, a, b;", [](T a, T b) { return static_cast<T>(a & b); });
  list.Add("or." + t + " d, a, b;", [](T a, T b) { return static_cast<T>(a | b); });
  list.Add("xor." + t + " d, a, b;", [](T a, T b) { return static_cast<T>(a ^ b); });
  list.Add("not." + t + " d, a;", [](T a) { return static_cast<T>(~a); });
  list.Add("cnot." + t + " d, a;", [](T a) { return static_cast<T>(a == 0 ? 1 : 0); });
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  list.Add("shl." + t + " d, a, b;", [](T a, Amount b) {
    return static_cast<T>(b.value >= kBits ? 0 : std::uint64_t{a} << b.value);
  });
  list.Add("shr." + t + " d, a, b;",
           [](T a, Amount b) { return static_cast<T>(b.value >= kBits ? 0 : a >> b.value); });
}

template <typename T>
void AddSignedShift(FormList& list, const std::string& t) {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  list.Add("shr." + t + " d, a, b;",
           [](T a, Amount b) { return static_cast<T>(a >> std::min(b.value, kBits - 1)); });
}

template <typename T>
void AddUnsignedShift(FormList& list, const std::string& t) {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  list.Add("shr." + t + " d, a, b;",
           [](T a, Amount b) { return static_cast<T>(b.value >= kBits ? 0 : a >> b.value); });
}

template <typename T>
void AddBits(FormList& list, const std::string& b) {
  list.Add("popc." + b + " d, a;",
           [](T a) { return static_cast<std::uint32_t>(std::popcount(a)); });
  list.Add("clz." + b + " d, a;",
           [](T a) { return static_cast<std::uint32_t>(std::countl_zero(a)); });
  list.Add("brev." + b + " d, a;", [](T a) {
    T result = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i) result = result << 1 | (a >> i & 1);
    return result;
  });
}

template <typename T>
std::uint32_t Found(T a, bool shift_amount) {
  constexpr int kBits = sizeof(T) * 8;
  using U = Unsigned<T>;
  U value = static_cast<U>(a);
  if (std::is_signed_v<T> && a < 0) value = static_cast<U>(~value);
  if (value == 0) return 0xffffffff;
  const int position = kBits - 1 - std::countl_zero(value);
  return static_cast<std::uint32_t>(shift_amount ? kBits - 1 - position : position);
}

template <typename T>
void AddBfind(FormList& list, const std::string& t) {
  list.Add("bfind." + t + " d, a;", [](T a) { return Found(a, false); });
  list.Add("bfind.shiftamt." + t + " d, a;", [](T a) { return Found(a, true); });
}

// Loops from the definitions in the PTX ISA.
template <typename T>
T ExtractField(T a, Amount position, Amount length) {
  constexpr unsigned kBits = sizeof(T) * 8;
  const unsigned pos = position.value & 0xff, len = length.value & 0xff;
  using U = Unsigned<T>;
  const auto bit = [&](unsigned i) { return static_cast<U>(static_cast<U>(a) >> i & 1); };
  U sign = 0;
  if (std::is_signed_v<T> && len != 0) sign = bit(std::min(pos + len - 1, kBits - 1));
  U result = 0;
  for (unsigned i = 0; i < kBits; ++i) {
    const U value = i < len && pos + i < kBits ? bit(pos + i) : sign;
    result |= static_cast<U>(value << i);
  }
  return static_cast<T>(result);
}

template <typename T>
T InsertField(T a, T b, Amount position, Amount length) {
  constexpr unsigned kBits = sizeof(T) * 8;
  const unsigned pos = position.value & 0xff, len = length.value & 0xff;
  T result = b;
  for (unsigned i = 0; i < len && pos + i < kBits; ++i) {
    const T one = static_cast<T>(T{1} << (pos + i));
    result = (a >> i & 1) != 0 ? result | one : static_cast<T>(result & ~one);
  }
  return result;
}

template <typename T>
void AddExtract(FormList& list, const std::string& t) {
  list.Add("bfe." + t + " d, a, b, c;",
           [](T a, Amount b, Amount c) { return ExtractField(a, b, c); })
      .defined =
      When<T, Amount, Amount>([](T, Amount b, Amount c) { return b.value < 256 && c.value < 256; });
}

template <typename T>
void AddCarry(FormList& list, const std::string& t, const std::string& bits) {
  using W = unsigned __int128;
  using U = Unsigned<T>;
  constexpr int kBits = sizeof(T) * 8;
  // d is the sum or product, q the next word containing the carry.
  const auto pair = [](U low, U high) {
    return std::pair<T, T>(static_cast<T>(low), static_cast<T>(high));
  };
  list.Add("add.cc." + t + " d, a, b; addc." + t + " q, c, 0;", [=](T a, T b, T c) {
    const W sum = static_cast<W>(static_cast<U>(a)) + static_cast<U>(b);
    return pair(static_cast<U>(sum), static_cast<U>(static_cast<U>(c) + (sum >> kBits)));
  });
  list.Add("sub.cc." + t + " d, a, b; subc." + t + " q, c, 0;", [=](T a, T b, T c) {
    const bool borrow = static_cast<U>(a) < static_cast<U>(b);
    return pair(static_cast<U>(a) - static_cast<U>(b), static_cast<U>(c) - (borrow ? 1 : 0));
  });
  list.Add("{ .reg .b" + bits + " z; add.cc." + t + " z, a, b; addc.cc." + t + " d, b, c; addc." +
               t + " q, 0, 0; }",
           [=](T a, T b, T c) {
             const W first = static_cast<W>(static_cast<U>(a)) + static_cast<U>(b);
             const W second =
                 static_cast<W>(static_cast<U>(b)) + static_cast<U>(c) + (first >> kBits);
             return pair(static_cast<U>(second), static_cast<U>(second >> kBits));
           });
  list.Add("{ .reg .b" + bits + " z; sub.cc." + t + " z, a, b; subc.cc." + t + " d, b, c; subc." +
               t + " q, 0, 0; }",
           [=](T a, T b, T c) {
             const W first = static_cast<W>(static_cast<U>(a)) - static_cast<U>(b);
             const W second =
                 static_cast<W>(static_cast<U>(b)) - static_cast<U>(c) - (first >> 127);
             return pair(static_cast<U>(second), static_cast<U>(second >> kBits));
           });
  const auto product = [](T a, T b) {
    if constexpr (std::is_signed_v<T>) return static_cast<W>(static_cast<__int128>(a) * b);
    return static_cast<W>(a) * static_cast<W>(b);
  };
  list.Add("mad.lo.cc." + t + " d, a, b, c; madc.hi." + t + " q, a, b, c;", [=](T a, T b, T c) {
    const W sum = static_cast<W>(static_cast<U>(product(a, b))) + static_cast<U>(c);
    return pair(static_cast<U>(sum),
                static_cast<U>((product(a, b) >> kBits) + static_cast<U>(c) + (sum >> kBits)));
  });
  list.Add("mad.hi.cc." + t + " d, a, b, c; madc.lo.cc." + t + " q, a, b, c;", [=](T a, T b, T c) {
    const W sum = static_cast<W>(static_cast<U>(product(a, b) >> kBits)) + static_cast<U>(c);
    return pair(static_cast<U>(sum),
                static_cast<U>(static_cast<U>(product(a, b)) + static_cast<U>(c) + (sum >> kBits)));
  });
  // The middle of a chain takes a carry and produces one.
  list.Add("{ .reg .b" + bits + " z; add.cc." + t + " z, a, b; madc.hi.cc." + t +
               " d, a, b, c; addc." + t + " q, 0, 0; }",
           [=](T a, T b, T c) {
             const W carry = (static_cast<W>(static_cast<U>(a)) + static_cast<U>(b)) >> kBits;
             const W sum =
                 static_cast<W>(static_cast<U>(product(a, b) >> kBits)) + static_cast<U>(c) + carry;
             return pair(static_cast<U>(sum), static_cast<U>(sum >> kBits));
           });
}

std::uint32_t Permuted(std::uint32_t a, std::uint32_t b, const std::uint32_t (&selectors)[4]) {
  const std::uint64_t bytes = a | std::uint64_t{b} << 32;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint32_t byte = bytes >> (selectors[i] & 7) * 8 & 0xff;
    if ((selectors[i] & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

void AddPermutations(FormList& list) {
  using U = std::uint32_t;
  list.Add("prmt.b32 d, a, b, c;", [](U a, U b, U c) {
    return Permuted(a, b, {c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15});
  });
  // (PTX ISA, "prmt": the tables of the modes)
  static constexpr struct {
    const char* mode;
    U selectors[4][4];
  } kModes[] = {
      {"f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
      {"b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
      {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
      {"ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
      {"ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
      {"rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}},
  };
  for (const auto& mode : kModes) {
    const auto* const selectors = mode.selectors;
    list.Add(std::string("prmt.b32.") + mode.mode + " d, a, b, c;",
             [selectors](U a, U b, U c) { return Permuted(a, b, selectors[c & 3]); });
  }
}

void AddFunnel(FormList& list) {
  using U = std::uint32_t;
  const auto shifted = [](U a, U b, U amount, bool left) {
    const std::uint64_t both = a | std::uint64_t{b} << 32;
    return static_cast<U>(left ? static_cast<unsigned __int128>(both) << amount >> 32
                               : both >> amount);
  };
  for (const bool left : {true, false}) {
    const std::string name = left ? "shf.l." : "shf.r.";
    list.Add(name + "wrap.b32 d, a, b, c;",
             [=](U a, U b, Amount c) { return shifted(a, b, c.value & 31, left); });
    list.Add(name + "clamp.b32 d, a, b, c;",
             [=](U a, U b, Amount c) { return shifted(a, b, std::min(c.value, 32U), left); });
  }
}

void AddMasks(FormList& list) {
  using U = std::uint32_t;
  const auto mask = [](U position, U length) {
    U result = 0;
    for (U i = position; i < 32 && i - position < length; ++i) result |= 1U << i;
    return result;
  };
  list.Add("bmsk.clamp.b32 d, a, b;", [=](Amount a, Amount b) { return mask(a.value, b.value); });
  list.Add("bmsk.wrap.b32 d, a, b;",
           [=](Amount a, Amount b) { return mask(a.value & 31, b.value & 31); });
  const auto extended = [](std::int32_t a, U bits, bool is_signed) {
    if (bits >= 32) return static_cast<U>(a);
    if (bits == 0) return 0U;
    const U low = static_cast<U>(a) & ((1U << bits) - 1);
    return is_signed && (low >> (bits - 1) & 1) != 0 ? low | ~((1U << bits) - 1) : low;
  };
  for (const bool is_signed : {true, false}) {
    const std::string t = is_signed ? ".s32" : ".u32";
    list.Add("szext.clamp" + t + " d, a, b;",
             [=](std::int32_t a, Amount b) { return extended(a, b.value, is_signed); });
    list.Add("szext.wrap" + t + " d, a, b;",
             [=](std::int32_t a, Amount b) { return extended(a, b.value & 31, is_signed); });
  }
}

void AddLop3(FormList& list) {
  using U = std::uint32_t;
  for (const unsigned table : {0x00U, 0x96U, 0xe8U, 0xcaU, 0x1eU, 0x80U, 0xfeU, 0xffU, 0x3aU}) {
    const auto value = [table](U a, U b, U c) {
      U result = 0;
      for (unsigned bit = 0; bit < 32; ++bit) {
        const unsigned index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
        result |= (table >> index & 1) << bit;
      }
      return result;
    };
    list.Add("lop3.b32 d, a, b, c, " + std::to_string(table) + ";", value);
    if (table != 0x96) continue;
    list.Add("lop3.or.b32 d|q, a, b, c, 150, e;", [=](U a, U b, U c, bool e) {
      const U d = value(a, b, c);
      return std::pair<U, bool>(d, d != 0 || e);
    });
    list.Add("lop3.and.b32 d|q, a, b, c, 150, e;", [=](U a, U b, U c, bool e) {
      const U d = value(a, b, c);
      return std::pair<U, bool>(d, d != 0 && e);
    });
  }
}

void AddProducts24(FormList& list) {
  const auto product = [](std::int64_t a, std::int64_t b, bool high) {
    return static_cast<std::uint32_t>(high ? (a * b) >> 16 : a * b);
  };
  const auto low_signed = [](std::int32_t a) {
    return std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(a) << 8) >> 8};
  };
  for (const bool high : {false, true}) {
    const std::string half = high ? "hi" : "lo";
    list.Add("mul24." + half + ".s32 d, a, b;", [=](std::int32_t a, std::int32_t b) {
      return product(low_signed(a), low_signed(b), high);
    });
    list.Add("mul24." + half + ".u32 d, a, b;", [=](std::uint32_t a, std::uint32_t b) {
      return product(a & 0xffffff, b & 0xffffff, high);
    });
    list.Add("mad24." + half + ".s32 d, a, b, c;",
             [=](std::int32_t a, std::int32_t b, std::uint32_t c) {
               return product(low_signed(a), low_signed(b), high) + c;
             });
    list.Add("mad24." + half + ".u32 d, a, b, c;",
             [=](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
               return product(a & 0xffffff, b & 0xffffff, high) + c;
             });
  }
  list.Add("mad24.hi.sat.s32 d, a, b, c;", [=](std::int32_t a, std::int32_t b, std::int32_t c) {
    return SaturatedTo<std::int32_t>(
        __int128{static_cast<std::int32_t>(product(low_signed(a), low_signed(b), true))} + c);
  });
}

}  // namespace

void AddIntegerForms() {
  FormList list("integer");
  AddArithmetic<std::uint16_t>(list, "u16");
  AddArithmetic<std::int16_t>(list, "s16");
  AddArithmetic<std::uint32_t>(list, "u32");
  AddArithmetic<std::int32_t>(list, "s32");
  AddArithmetic<std::uint64_t>(list, "u64");
  AddArithmetic<std::int64_t>(list, "s64");
  AddWide<std::uint16_t, std::uint32_t>(list, "u16");
  AddWide<std::int16_t, std::int32_t>(list, "s16");
  AddWide<std::uint32_t, std::uint64_t>(list, "u32");
  AddWide<std::int32_t, std::int64_t>(list, "s32");
  using S = std::int32_t;
  list.Add("add.sat.s32 d, a, b;", [](S a, S b) { return SaturatedTo<S>(__int128{a} + b); });
  list.Add("sub.sat.s32 d, a, b;", [](S a, S b) { return SaturatedTo<S>(__int128{a} - b); });
  list.Add("mad.hi.sat.s32 d, a, b, c;",
           [](S a, S b, S c) { return SaturatedTo<S>((static_cast<__int128>(a) * b >> 32) + c); });
  list.Add("min.relu.s32 d, a, b;", [](S a, S b) { return std::max(std::min(a, b), 0); });
  list.Add("max.relu.s32 d, a, b;", [](S a, S b) { return std::max(std::max(a, b), 0); });
  AddLogic<std::uint16_t>(list, "b16");
  AddLogic<std::uint32_t>(list, "b32");
  AddLogic<std::uint64_t>(list, "b64");
  AddSignedShift<std::int16_t>(list, "s16");
  AddSignedShift<std::int32_t>(list, "s32");
  AddSignedShift<std::int64_t>(list, "s64");
  AddUnsignedShift<std::uint16_t>(list, "u16");
  AddUnsignedShift<std::uint32_t>(list, "u32");
  AddUnsignedShift<std::uint64_t>(list, "u64");
  list.Add("and.pred d, a, b;", [](bool a, bool b) { return a && b; });
  list.Add("or.pred d, a, b;", [](bool a, bool b) { return a || b; });
  list.Add("xor.pred d, a, b;", [](bool a, bool b) { return a != b; });
  list.Add("not.pred d, a;", [](bool a) { return !a; });
  AddBits<std::uint32_t>(list, "b32");
  AddBits<std::uint64_t>(list, "b64");
  AddBfind<std::uint32_t>(list, "u32");
  AddBfind<S>(list, "s32");
  AddBfind<std::uint64_t>(list, "u64");
  AddBfind<std::int64_t>(list, "s64");
  AddExtract<std::uint32_t>(list, "u32");
  AddExtract<S>(list, "s32");
  AddExtract<std::uint64_t>(list, "u64");
  AddExtract<std::int64_t>(list, "s64");
  list.Add("bfi.b32 d, a, b, c, e;", [](std::uint32_t a, std::uint32_t b, Amount c,
                                        Amount e) { return InsertField(a, b, c, e); })
      .defined = When<std::uint32_t, std::uint32_t, Amount, Amount>(
      [](std::uint32_t, std::uint32_t, Amount c, Amount e) {
        return c.value < 256 && e.value < 256;
      });
  list.Add("bfi.b64 d, a, b, c, e;", [](std::uint64_t a, std::uint64_t b, Amount c,
                                        Amount e) { return InsertField(a, b, c, e); })
      .defined = When<std::uint64_t, std::uint64_t, Amount, Amount>(
      [](std::uint64_t, std::uint64_t, Amount c, Amount e) {
        return c.value < 256 && e.value < 256;
      });
  AddCarry<std::uint32_t>(list, "u32", "32");
  AddCarry<S>(list, "s32", "32");
  AddCarry<std::uint64_t>(list, "u64", "64");
  AddCarry<std::int64_t>(list, "s64", "64");
  AddPermutations(list);
  AddFunnel(list);
  AddMasks(list);
  AddLop3(list);
  AddProducts24(list);
  list.Add("fns.b32 d, a, b, c;",
           [](std::uint32_t mask, Amount b, std::int32_t offset) {
             const std::uint32_t base = b.value & 31;
             if (offset == 0) return (mask >> base & 1) != 0 ? base : 0xffffffffU;
             std::int64_t wanted = offset < 0 ? -std::int64_t{offset} : offset;
             for (int i = static_cast<int>(base); i >= 0 && i < 32; i += offset < 0 ? -1 : 1)
               if ((mask >> i & 1) != 0 && --wanted == 0) return static_cast<std::uint32_t>(i);
             return 0xffffffffU;
           })
      .defined =
      When<std::uint32_t, Amount, std::int32_t>([](std::uint32_t, Amount b, std::int32_t c) {
        return b.value < 32 && c > std::numeric_limits<std::int32_t>::min();
      });
}

}  // namespace cuspan::ptx_forms
