// Dot products and packed integers. (PTX ISA, "dp4a", "dp2a", "SIMD Video
// Instructions", "Integer Arithmetic Instructions")
#include <algorithm>

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
  AddPackedIntegers(list);
}

}  // namespace cuspan::ptx_forms
