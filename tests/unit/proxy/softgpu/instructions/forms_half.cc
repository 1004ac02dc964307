// f16, bf16 and packed pairs of them. (PTX ISA, "Half Precision Floating-Point
// Instructions")
#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

template <typename H>
H Make(Wide x) {
  if constexpr (std::is_same_v<H, Half>) {
    return ToHalf(x);
  } else {
    return ToBf16(x);
  }
}

template <typename H>
constexpr std::uint16_t kInfinity = std::is_same_v<H, Half> ? 0x7c00 : 0x7f80;

template <typename H>
bool IsHalfNan(H x) {
  return (x.bits & 0x7fff) > kInfinity<H>;
}
template <typename H>
H Nan() {
  return {0x7fff};
}

template <typename H>
H FlushHalfIf(bool flush, H x) {
  if constexpr (std::is_same_v<H, Half>) {
    return flush ? Flush(x) : x;
  } else {
    return x;
  }
}

template <typename H>
H Finish(Wide exact, bool flush, bool saturate, bool relu) {
  H result = Make<H>(exact);
  if (flush && IsFlushed(kHalfFormat, exact, Mode::kNearest)) result.bits &= 0x8000;
  if (saturate) {
    if (IsHalfNan(result)) return {0};
    const double value = ToDouble(result);
    if (!(value > 0)) return {0};
    if (value > 1) return Make<H>(1);
  }
  if (relu && !IsHalfNan(result) && (result.bits & 0x8000) != 0) return {0};
  return result;
}

template <typename H>
H HalfMinMax(H a, H b, bool is_max, bool nan) {
  if (IsHalfNan(a) || IsHalfNan(b)) {
    if (nan || (IsHalfNan(a) && IsHalfNan(b))) return Nan<H>();
    return IsHalfNan(a) ? b : a;
  }
  const double x = ToDouble(a), y = ToDouble(b);
  if (x == y) return ((a.bits & 0x8000) != 0) == is_max ? b : a;
  return (x < y) == is_max ? b : a;
}

// Adds a form for H, and the same for pairs of H.
template <typename H, typename H2>
class Both {
 public:
  Both(FormList& list, std::string type) : list_(list), type_(std::move(type)) {}

  template <typename Operation>
  void Add1(const std::string& name, Operation operation, Tolerance tolerance = {}) {
    list_.Add(
        name + "." + type_ + " d, a;", [=](H a) { return operation(a); }, tolerance);
    list_.Add(
        name + "." + type_ + "x2 d, a;",
        [=](H2 a) {
          return H2{operation(a.low), operation(a.high)};
        },
        tolerance);
  }
  template <typename Operation>
  void Add2(const std::string& name, Operation operation) {
    list_.Add(name + "." + type_ + " d, a, b;", [=](H a, H b) { return operation(a, b); });
    list_.Add(name + "." + type_ + "x2 d, a, b;", [=](H2 a, H2 b) {
      return H2{operation(a.low, b.low), operation(a.high, b.high)};
    });
  }
  template <typename Operation>
  void Add3(const std::string& name, Operation operation) {
    list_.Add(name + "." + type_ + " d, a, b, c;",
              [=](H a, H b, H c) { return operation(a, b, c); });
    list_.Add(name + "." + type_ + "x2 d, a, b, c;", [=](H2 a, H2 b, H2 c) {
      return H2{operation(a.low, b.low, c.low), operation(a.high, b.high, c.high)};
    });
  }

 private:
  FormList& list_;
  const std::string type_;
};

template <typename H, typename H2>
void AddType(FormList& list, const std::string& type) {
  constexpr bool kHalf = std::is_same_v<H, Half>;
  Both<H, H2> both(list, type);
  for (const bool flush : {false, true}) {
    for (const bool saturate : {false, true}) {
      if (!kHalf && (flush || saturate)) continue;
      const std::string tail = std::string(flush ? ".ftz" : "") + (saturate ? ".sat" : "");
      const auto wide = [=](H x) { return static_cast<Wide>(ToDouble(FlushHalfIf(flush, x))); };
      const auto finish = [=](Wide x) { return Finish<H>(x, flush, saturate, false); };
      for (const std::string rounding : {"", ".rn"}) {
        if (!kHalf && rounding.empty()) continue;
        both.Add2("add" + rounding + tail,
                  [=](H a, H b) { return finish(AddToOdd(wide(a), wide(b))); });
        both.Add2("sub" + rounding + tail,
                  [=](H a, H b) { return finish(AddToOdd(wide(a), -wide(b))); });
        both.Add2("mul" + rounding + tail, [=](H a, H b) { return finish(wide(a) * wide(b)); });
      }
      both.Add3("fma.rn" + tail,
                [=](H a, H b, H c) { return finish(AddToOdd(wide(a) * wide(b), wide(c))); });
    }
    if (!kHalf && flush) continue;
    const std::string ftz = flush ? ".ftz" : "";
    both.Add3("fma.rn" + ftz + ".relu", [=](H a, H b, H c) {
      const auto wide = [=](H x) { return static_cast<Wide>(ToDouble(FlushHalfIf(flush, x))); };
      return Finish<H>(AddToOdd(wide(a) * wide(b), wide(c)), flush, false, true);
    });
    for (const bool is_max : {false, true}) {
      for (const bool nan : {false, true}) {
        const std::string name = std::string(is_max ? "max" : "min") + ftz + (nan ? ".NaN" : "");
        both.Add2(name, [=](H a, H b) {
          return HalfMinMax(FlushHalfIf(flush, a), FlushHalfIf(flush, b), is_max, nan);
        });
        both.Add2(name + ".xorsign.abs", [=](H a, H b) {
          a = FlushHalfIf(flush, a);
          b = FlushHalfIf(flush, b);
          const H magnitude =
              HalfMinMax(H{static_cast<std::uint16_t>(a.bits & 0x7fff)},
                         H{static_cast<std::uint16_t>(b.bits & 0x7fff)}, is_max, nan);
          if (IsHalfNan(magnitude)) return magnitude;
          return H{
              static_cast<std::uint16_t>((magnitude.bits & 0x7fff) | ((a.bits ^ b.bits) & 0x8000))};
        });
      }
    }
  }
  for (const bool flush : {false, true}) {
    if (flush && !kHalf) continue;
    const std::string ftz = flush ? ".ftz" : "";
    both.Add1("abs" + ftz, [=](H a) {
      return H{static_cast<std::uint16_t>(FlushHalfIf(flush, a).bits & 0x7fff)};
    });
    both.Add1("neg" + ftz, [=](H a) {
      return H{static_cast<std::uint16_t>(FlushHalfIf(flush, a).bits ^ 0x8000)};
    });
  }
  // (PTX ISA, "tanh", "ex2": the error bounds of the half-precision forms)
  const Tolerance tanh_bound = {.ulps = 0, .relative = 0, .absolute = kHalf ? 0x1.03p-11 : 0x1p-8};
  both.Add1(
      "tanh.approx", [](H a) { return Make<H>(std::tanh(ToDouble(a))); }, tanh_bound);
  const auto ex2 = [](H a) { return Make<H>(static_cast<Wide>(std::exp2(ToDouble(a)))); };
  if constexpr (kHalf) {
    both.Add1("ex2.approx", ex2, {.ulps = 2, .relative = 0x1.1p-10, .absolute = 0});
  } else {
    const auto flushed = [=](H a) {
      // Subnormal inputs and results become zero.
      if ((a.bits & 0x7f80) == 0) a.bits &= 0x8000;
      H result = ex2(a);
      if ((result.bits & 0x7f80) == 0) result.bits &= 0x8000;
      return result;
    };
    both.Add1("ex2.approx.ftz", flushed, {.ulps = 2, .relative = 0x1p-7, .absolute = 0});
  }
}

}  // namespace

void AddHalfForms() {
  FormList list("half");
  AddType<Half, Half2>(list, "f16");
  AddType<Bf16, Bf162>(list, "bf16");
}

}  // namespace cuspan::ptx_forms
