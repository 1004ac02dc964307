// Dot products and packed integers. (PTX ISA, "dp4a", "dp2a", "SIMD Video
// Instructions", "Integer Arithmetic Instructions")
#include <algorithm>
#include <initializer_list>

#include "tests/unit/proxy/softgpu/instructions/forms.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;
using S = std::int32_t;

S Element(U packed, unsigned bits, unsigned index, bool is_signed) {
  const U raised = packed << (32 - bits * (index + 1));
  return is_signed ? static_cast<S>(raised) >> (32 - bits) : static_cast<S>(raised >> (32 - bits));
}

void AddDotProducts(FormList& list) {
  for (const bool a_signed : {false, true}) {
    for (const bool b_signed : {false, true}) {
      const std::string types =
          std::string(a_signed ? ".s32" : ".u32") + (b_signed ? ".s32" : ".u32");
      list.Add("dp4a" + types + " d, a, b, c;", [=](U a, U b, U c) {
        for (unsigned i = 0; i < 4; ++i)
          c += static_cast<U>(Element(a, 8, i, a_signed) * Element(b, 8, i, b_signed));
        return c;
      });
      for (const bool high : {false, true}) {
        list.Add(std::string("dp2a.") + (high ? "hi" : "lo") + types + " d, a, b, c;",
                 [=](U a, U b, U c) {
                   for (unsigned i = 0; i < 2; ++i)
                     c += static_cast<U>(Element(a, 16, i, a_signed) *
                                         Element(b, 8, i + (high ? 2 : 0), b_signed));
                   return c;
                 });
      }
    }
  }
}

enum class Operation { kAdd, kSub, kAverage, kDifference, kMin, kMax };

S Apply(Operation operation, S x, S y) {
  switch (operation) {
    case Operation::kAdd:
      return x + y;
    case Operation::kSub:
      return x - y;
    case Operation::kAverage:
      return (x + y + (x + y >= 0 ? 1 : 0)) >> 1;
    case Operation::kDifference:
      return x < y ? y - x : x - y;
    case Operation::kMin:
      return std::min(x, y);
    case Operation::kMax:
      return std::max(x, y);
  }
  return 0;
}

void AddSimd(FormList& list, const std::string& name, Operation operation) {
  for (const unsigned lanes : {2U, 4U}) {
    for (const bool is_signed : {false, true}) {
      const std::string type = is_signed ? ".s32" : ".u32";
      const std::string opcode = name + std::to_string(lanes) + type + type + type;
      const unsigned bits = 32 / lanes;
      const auto value = [=](U a, U b, unsigned i) {
        return Apply(operation, Element(a, bits, i, is_signed), Element(b, bits, i, is_signed));
      };
      list.Add(opcode + " d, a, b, c;", [=](U a, U b, U) {
        U result = 0;
        for (unsigned i = 0; i < lanes; ++i)
          result |= (static_cast<U>(value(a, b, i)) & ((1U << bits) - 1)) << (bits * i);
        return result;
      });
      list.Add(opcode + ".sat d, a, b, c;", [=](U a, U b, U) {
        U result = 0;
        const S low = is_signed ? -(1 << (bits - 1)) : 0;
        const S high = (1 << (is_signed ? bits - 1 : bits)) - 1;
        for (unsigned i = 0; i < lanes; ++i)
          result |= (static_cast<U>(std::clamp(value(a, b, i), low, high)) & ((1U << bits) - 1))
                    << (bits * i);
        return result;
      });
      list.Add(opcode + ".add d, a, b, c;", [=](U a, U b, U c) {
        for (unsigned i = 0; i < lanes; ++i) c += static_cast<U>(value(a, b, i));
        return c;
      });
    }
  }
}

// --- Scalar video instructions. GPUs since Volta do not have them, and the code of ptxas 13.0 in
// their place contradicts the ISA in 46 forms (measured on an H200). The intermediate result has 32
// bits instead of 34, an unsigned .max does not find the maximum, and .sat to a part of d clamps to
// another range. Examples: vadd.u32.u32.u32.sat of 0xffffffff and 0xff is 0xfe, and
// vadd.u32.u32.s32.sat d.h1 of 1 and 0 is 0.

using L = __int128;

struct Part {
  const char* name;
  unsigned bits, shift;
};
constexpr Part kParts[] = {{"", 32, 0},    {".b0", 8, 0},  {".b2", 8, 16},
                           {".b3", 8, 24}, {".h0", 16, 0}, {".h1", 16, 16}};

L PartOf(U word, const Part& part, bool is_signed) {
  const U field = static_cast<U>(word >> part.shift << (32 - part.bits)) >> (32 - part.bits);
  const bool negative = is_signed && (field >> (part.bits - 1) & 1) != 0;
  return negative ? static_cast<L>(field) - (L{1} << part.bits) : static_cast<L>(field);
}

U Clamped(L value, unsigned bits, bool is_signed) {
  const L low = is_signed ? -(L{1} << (bits - 1)) : 0;
  const L high = (L{1} << (is_signed ? bits - 1 : bits)) - 1;
  return static_cast<U>(std::clamp(value, low, high));
}

std::string TypesOf(std::initializer_list<bool> are_signed) {
  std::string types;
  for (const bool is_signed : are_signed) types += is_signed ? ".s32" : ".u32";
  return types;
}

template <typename Compute>
void AddScalar(FormList& list, const std::string& name, Compute compute) {
  for (unsigned kinds = 0; kinds < 8; ++kinds) {
    const bool d_signed = (kinds & 1) != 0, a_signed = (kinds & 2) != 0, b_signed = kinds >= 4;
    const std::string opcode = name + TypesOf({d_signed, a_signed, b_signed});
    const Part &x = kParts[kinds % 6], &y = kParts[(kinds + 2) % 6];
    const auto value = [=](U a, U b) {
      return static_cast<L>(compute(PartOf(a, x, a_signed), PartOf(b, y, b_signed)));
    };
    const std::string sources = std::string(", a") + x.name + ", b" + y.name;
    list.Add(opcode + " d" + sources + ";", [=](U a, U b) { return static_cast<U>(value(a, b)); });
    const bool exceeds_32_bits = kinds == 0 && name == "vadd";
    list.Add(opcode + ".sat d" + sources + ";",
             [=](U a, U b) { return Clamped(value(a, b), 32, d_signed); })
        .gpus_deviate = exceeds_32_bits;
    list.Add(opcode + ".sat.add d" + sources + ", c;",
             [=](U a, U b, U c) { return Clamped(value(a, b), 32, d_signed) + c; })
        .gpus_deviate = exceeds_32_bits;
    list.Add(opcode + ".max d" + sources + ", c;",
             [=](U a, U b, U c) {
               const U first = static_cast<U>(value(a, b));
               return d_signed ? static_cast<U>(std::max(static_cast<S>(first), static_cast<S>(c)))
                               : std::max(first, c);
             })
        .gpus_deviate = !d_signed;
    const Part& into = kParts[1 + kinds % 5];
    list.Add(opcode + ".sat d" + into.name + sources + ", c;",
             [=](U a, U b, U c) {
               const U field = ((U{1} << into.bits) - 1) << into.shift;
               return (c & ~field) |
                      (Clamped(value(a, b), into.bits, d_signed) << into.shift & field);
             })
        .gpus_deviate = true;
  }
}

void AddShifts(FormList& list) {
  for (const bool left : {true, false}) {
    for (const bool wrap : {true, false}) {
      for (const bool is_signed : {true, false}) {
        const std::string opcode =
            std::string(left ? "vshl" : "vshr") + TypesOf({is_signed, is_signed, false});
        const auto value = [=](U a, U b) {
          const U amount = wrap ? b & 31 : std::min(b, U{32});
          const L number = PartOf(a, kParts[0], is_signed);
          return left ? number * (L{1} << amount) : number >> amount;
        };
        const std::string mode = wrap ? ".wrap" : ".clamp";
        list.Add(opcode + mode + " d, a, b;",
                 [=](U a, U b) { return static_cast<U>(value(a, b)); });
        list.Add(opcode + ".sat" + mode + " d, a, b;",
                 [=](U a, U b) { return Clamped(value(a, b), 32, is_signed); })
            .gpus_deviate = left;
      }
    }
  }
}

void AddMultiplyAdd(FormList& list) {
  for (unsigned kinds = 0; kinds < 4; ++kinds) {
    const bool a_signed = (kinds & 1) != 0, b_signed = kinds >= 2;
    const bool is_signed = a_signed || b_signed;
    const std::string opcode = "vmad" + TypesOf({is_signed, a_signed, b_signed});
    const auto value = [=](U a, U b, U c) {
      return PartOf(a, kParts[0], a_signed) * PartOf(b, kParts[4], b_signed) +
             PartOf(c, kParts[0], is_signed);
    };
    list.Add(opcode + " d, a, b.h0, c;",
             [=](U a, U b, U c) { return static_cast<U>(value(a, b, c)); });
    list.Add(opcode + ".po.shr7 d, a, b.h0, c;",
             [=](U a, U b, U c) { return static_cast<U>((value(a, b, c) + 1) >> 7); })
        .gpus_deviate = !a_signed;
    list.Add(opcode + ".sat.shr15 d, a, b.h0, c;",
             [=](U a, U b, U c) { return Clamped(value(a, b, c) >> 15, 32, is_signed); })
        .gpus_deviate = !a_signed;
  }
}

template <typename Compare>
void AddSet(FormList& list, const std::string& name, Compare compare) {
  for (unsigned kinds = 0; kinds < 4; ++kinds) {
    const bool a_signed = (kinds & 1) != 0, b_signed = kinds >= 2;
    const std::string types = TypesOf({a_signed, b_signed}) + name;
    const Part &x = kParts[kinds], &y = kParts[kinds + 2];
    list.Add("vset" + types + " d, a" + x.name + ", b" + y.name + ";", [=](U a, U b) {
      return static_cast<U>(compare(PartOf(a, x, a_signed), PartOf(b, y, b_signed)) ? 1 : 0);
    });
    for (const unsigned lanes : {2U, 4U}) {
      const unsigned bits = 32 / lanes;
      const auto is_set = [=](U a, U b, unsigned i) {
        const Part part{"", bits, bits * i};
        return static_cast<U>(compare(PartOf(a, part, a_signed), PartOf(b, part, b_signed)) ? 1
                                                                                            : 0);
      };
      const std::string opcode = "vset" + std::to_string(lanes) + types;
      list.Add(opcode + " d, a, b, c;", [=](U a, U b, U) {
        U result = 0;
        for (unsigned i = 0; i < lanes; ++i) result |= is_set(a, b, i) << (bits * i);
        return result;
      });
      list.Add(opcode + ".add d, a, b, c;", [=](U a, U b, U c) {
        for (unsigned i = 0; i < lanes; ++i) c += is_set(a, b, i);
        return c;
      });
    }
  }
}

void AddScalarVideo(FormList& list) {
  AddScalar(list, "vadd", [](L x, L y) { return x + y; });
  AddScalar(list, "vsub", [](L x, L y) { return x - y; });
  AddScalar(list, "vabsdiff", [](L x, L y) { return x < y ? y - x : x - y; });
  AddScalar(list, "vmin", [](L x, L y) { return std::min(x, y); });
  AddScalar(list, "vmax", [](L x, L y) { return std::max(x, y); });
  AddShifts(list);
  AddMultiplyAdd(list);
  AddSet(list, ".eq", [](L x, L y) { return x == y; });
  AddSet(list, ".ne", [](L x, L y) { return x != y; });
  AddSet(list, ".lt", [](L x, L y) { return x < y; });
  AddSet(list, ".le", [](L x, L y) { return x <= y; });
  AddSet(list, ".gt", [](L x, L y) { return x > y; });
  AddSet(list, ".ge", [](L x, L y) { return x >= y; });
}

void AddPackedIntegers(FormList& list) {
  const auto both = [](auto operation, bool is_signed) {
    return [=](U a, U b) {
      U result = 0;
      for (unsigned i = 0; i < 2; ++i)
        result |=
            (static_cast<U>(operation(Element(a, 16, i, is_signed), Element(b, 16, i, is_signed))) &
             0xffff)
            << (16 * i);
      return result;
    };
  };
  list.Add("add.u16x2 d, a, b;", both([](S a, S b) { return a + b; }, false));
  list.Add("add.s16x2 d, a, b;", both([](S a, S b) { return a + b; }, true));
  list.Add("min.u16x2 d, a, b;", both([](S a, S b) { return std::min(a, b); }, false));
  list.Add("min.s16x2 d, a, b;", both([](S a, S b) { return std::min(a, b); }, true));
  list.Add("max.u16x2 d, a, b;", both([](S a, S b) { return std::max(a, b); }, false));
  list.Add("max.s16x2 d, a, b;", both([](S a, S b) { return std::max(a, b); }, true));
  list.Add("min.relu.s16x2 d, a, b;",
           both([](S a, S b) { return std::max(std::min(a, b), 0); }, true));
  list.Add("max.relu.s16x2 d, a, b;",
           both([](S a, S b) { return std::max(std::max(a, b), 0); }, true));
}

}  // namespace

void AddVideoForms() {
  FormList list("packed");
  AddDotProducts(list);
  AddSimd(list, "vadd", Operation::kAdd);
  AddSimd(list, "vsub", Operation::kSub);
  AddSimd(list, "vavrg", Operation::kAverage);
  AddSimd(list, "vabsdiff", Operation::kDifference);
  AddSimd(list, "vmin", Operation::kMin);
  AddSimd(list, "vmax", Operation::kMax);
  AddScalarVideo(list);
  AddPackedIntegers(list);
}

}  // namespace cuspan::ptx_forms
