// Comparison and selection. (PTX ISA, "Comparison and Selection Instructions")
#include <cmath>
#include <type_traits>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

enum class Order { kEq, kNe, kLt, kLe, kGt, kGe, kNum, kNan };

constexpr struct {
  const char* name;
  Order order;
  bool unordered;
} kFloatOrders[] = {
    {"eq", Order::kEq, false},   {"ne", Order::kNe, false},   {"lt", Order::kLt, false},
    {"le", Order::kLe, false},   {"gt", Order::kGt, false},   {"ge", Order::kGe, false},
    {"equ", Order::kEq, true},   {"neu", Order::kNe, true},   {"ltu", Order::kLt, true},
    {"leu", Order::kLe, true},   {"gtu", Order::kGt, true},   {"geu", Order::kGe, true},
    {"num", Order::kNum, false}, {"nan", Order::kNan, false},
};

template <typename T>
bool Holds(Order order, bool unordered, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool nan = std::isnan(a) || std::isnan(b);
    if (order == Order::kNum) return !nan;
    if (order == Order::kNan) return nan;
    if (nan) return unordered;
  }
  switch (order) {
    case Order::kEq:
      return a == b;
    case Order::kNe:
      return a != b;
    case Order::kLt:
      return a < b;
    case Order::kLe:
      return a <= b;
    case Order::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

template <typename T>
void AddInteger(FormList& list, const std::string& t, bool bits) {
  for (const auto& [name, order, unordered] : kFloatOrders) {
    if (unordered || order == Order::kNum || order == Order::kNan) continue;
    if (bits && order != Order::kEq && order != Order::kNe) continue;
    const Order o = order;
    const std::string text = std::string(name) + ".";
    list.Add("setp." + text + t + " d, a, b;", [o](T a, T b) { return Holds(o, false, a, b); });
    if (sizeof(T) == 4) {
      list.Add("set." + text + "u32." + t + " d, a, b;",
               [o](T a, T b) { return Holds(o, false, a, b) ? 0xffffffffU : 0U; });
      list.Add("set." + text + "f32." + t + " d, a, b;",
               [o](T a, T b) { return Holds(o, false, a, b) ? 1.0F : 0.0F; });
    }
  }
  if (std::is_unsigned_v<T> && !bits) {
    list.Add("setp.lo." + t + " d, a, b;", [](T a, T b) { return a < b; });
    list.Add("setp.ls." + t + " d, a, b;", [](T a, T b) { return a <= b; });
    list.Add("setp.hi." + t + " d, a, b;", [](T a, T b) { return a > b; });
    list.Add("setp.hs." + t + " d, a, b;", [](T a, T b) { return a >= b; });
  }
  list.Add("selp." + t + " d, a, b, c;", [](T a, T b, bool c) { return c ? a : b; });
}

template <typename T>
void AddFloat(FormList& list, const std::string& t) {
  for (const auto& [name, order, unordered] : kFloatOrders) {
    for (const bool flush : {false, true}) {
      if (flush && sizeof(T) != 4) continue;
      const Order o = order;
      const bool u = unordered;
      const auto holds = [=](T a, T b) {
        if constexpr (sizeof(T) == 4) {
          if (flush) return Holds(o, u, Flush(a), Flush(b));
        }
        return Holds(o, u, a, b);
      };
      const std::string text = std::string(name) + (flush ? ".ftz." : ".");
      list.Add("setp." + text + t + " d, a, b;", holds);
      list.Add("set." + text + "u32." + t + " d, a, b;",
               [=](T a, T b) { return holds(a, b) ? 0xffffffffU : 0U; });
      list.Add("set." + text + "f32." + t + " d, a, b;",
               [=](T a, T b) { return holds(a, b) ? 1.0F : 0.0F; });
    }
  }
}

template <typename H, typename H2>
void AddHalf(FormList& list, const std::string& t) {
  constexpr bool kHalf = std::is_same_v<H, Half>;
  const std::uint16_t one = kHalf ? 0x3c00 : 0x3f80;
  for (const auto& [name, order, unordered] : kFloatOrders) {
    const Order o = order;
    const bool u = unordered;
    for (const bool flush : {false, true}) {
      if (flush && !kHalf) continue;
      const std::string text = std::string(name) + (flush ? ".ftz" : "");
      const auto holds = [=](H a, H b) {
        if constexpr (kHalf) {
          if (flush) return Holds(o, u, ToDouble(Flush(a)), ToDouble(Flush(b)));
        }
        return Holds(o, u, ToDouble(a), ToDouble(b));
      };
      list.Add("setp." + text + "." + t + " d, a, b;", holds);
      list.Add("setp." + text + "." + t + "x2 d|q, a, b;", [=](H2 a, H2 b) {
        return std::pair<bool, bool>(holds(a.low, b.low), holds(a.high, b.high));
      });
      list.Add("set." + text + "." + t + "." + t + " d, a, b;",
               [=](H a, H b) { return H{holds(a, b) ? one : std::uint16_t{0}}; });
      list.Add("set." + text + "." + t + "x2." + t + "x2 d, a, b;", [=](H2 a, H2 b) {
        return H2{{holds(a.low, b.low) ? one : std::uint16_t{0}},
                  {holds(a.high, b.high) ? one : std::uint16_t{0}}};
      });
      list.Add("set." + text + ".u32." + t + " d, a, b;",
               [=](H a, H b) { return holds(a, b) ? 0xffffffffU : 0U; });
    }
  }
}

void AddCombined(FormList& list) {
  using S = std::int32_t;
  list.Add("setp.lt.and.s32 d, a, b, c;", [](S a, S b, bool c) { return a < b && c; });
  list.Add("setp.lt.or.s32 d, a, b, c;", [](S a, S b, bool c) { return a < b || c; });
  list.Add("setp.lt.xor.s32 d, a, b, c;", [](S a, S b, bool c) { return (a < b) != c; });
  list.Add("setp.lt.and.s32 d, a, b, !c;", [](S a, S b, bool c) { return a < b && !c; });
  list.Add("setp.lt.s32 d|q, a, b;",
           [](S a, S b) { return std::pair<bool, bool>(a < b, !(a < b)); });
  list.Add("setp.lt.and.s32 d|q, a, b, c;",
           [](S a, S b, bool c) { return std::pair<bool, bool>(a < b && c, !(a < b) && c); });
  list.Add("set.lt.and.u32.s32 d, a, b, c;",
           [](S a, S b, bool c) { return a < b && c ? 0xffffffffU : 0U; });
  list.Add("slct.u32.s32 d, a, b, c;",
           [](std::uint32_t a, std::uint32_t b, S c) { return c >= 0 ? a : b; });
  list.Add("slct.f32.s32 d, a, b, c;", [](float a, float b, S c) { return c >= 0 ? a : b; });
  list.Add("slct.u64.f32 d, a, b, c;",
           [](std::uint64_t a, std::uint64_t b, float c) { return c >= 0 ? a : b; });
  list.Add("slct.ftz.f64.f32 d, a, b, c;",
           [](double a, double b, float c) { return Flush(c) >= 0 ? a : b; });
}

}  // namespace

void AddCompareForms() {
  FormList list("compare");
  AddInteger<std::uint16_t>(list, "u16", false);
  AddInteger<std::int16_t>(list, "s16", false);
  AddInteger<std::uint32_t>(list, "u32", false);
  AddInteger<std::int32_t>(list, "s32", false);
  AddInteger<std::uint64_t>(list, "u64", false);
  AddInteger<std::int64_t>(list, "s64", false);
  AddInteger<std::uint16_t>(list, "b16", true);
  AddInteger<std::uint32_t>(list, "b32", true);
  AddInteger<std::uint64_t>(list, "b64", true);
  AddFloat<float>(list, "f32");
  AddFloat<double>(list, "f64");
  AddHalf<Half, Half2>(list, "f16");
  AddHalf<Bf16, Bf162>(list, "bf16");
  AddCombined(list);
}

}  // namespace cuspan::ptx_forms
