// f32 and f64 arithmetic defined by the PTX ISA to the bit.
#include <algorithm>
#include <cfenv>
#include <cmath>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

constexpr struct {
  const char* name;
  int fenv;
  Mode mode;
} kRoundings[] = {{"rn", FE_TONEAREST, Mode::kNearest},
                  {"rz", FE_TOWARDZERO, Mode::kZero},
                  {"rm", FE_DOWNWARD, Mode::kDown},
                  {"rp", FE_UPWARD, Mode::kUp}};

// Evaluates in a rounding mode. Volatile variables prevent the compiler from moving or folding the
// operation.
template <typename T, typename Operation>
T Rounded(int mode, Operation operation, T a, T b = 0, T c = 0) {
  volatile T x = a, y = b, z = c;
  std::fesetround(mode);
  volatile T result = operation(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

// Applies .ftz to a result.
template <typename T>
T FlushResult(bool flush, T rounded, Wide exact, Mode mode) {
  if constexpr (sizeof(T) == 4) {
    if (flush && IsFlushed(kFloatFormat, exact, mode)) return std::copysign(0.0F, rounded);
  }
  return rounded;
}

// Adds the forms of one operation: each rounding, and for f32 also .ftz and .sat.
template <typename T, typename Operation>
void AddRoundings(FormList& list, const std::string& name, const std::string& type, int inputs,
                  Operation operation, Wide (*exact)(Wide, Wide, Wide), bool has_saturation,
                  bool has_default) {
  const bool is_float = sizeof(T) == 4;
  for (int mode = has_default ? -1 : 0; mode < 4; ++mode) {
    for (const bool flush : {false, true}) {
      for (const bool saturate : {false, true}) {
        if ((flush && !is_float) || (saturate && (!is_float || !has_saturation))) continue;
        const std::string text = name + (mode < 0 ? "" : std::string(".") + kRoundings[mode].name) +
                                 (flush ? ".ftz" : "") + (saturate ? ".sat" : "") + "." + type;
        const auto rounding = kRoundings[std::max(mode, 0)];
        const auto compute = [=](T a, T b, T c) {
          a = FlushIf(flush, a);
          b = FlushIf(flush, b);
          c = FlushIf(flush, c);
          const T value = FlushResult(flush, Rounded<T>(rounding.fenv, operation, a, b, c),
                                      exact(a, b, c), rounding.mode);
          return saturate ? Saturated(value) : value;
        };
        if (inputs == 1) list.Add(text + " d, a;", [=](T a) { return compute(a, 0, 0); });
        if (inputs == 2) list.Add(text + " d, a, b;", [=](T a, T b) { return compute(a, b, 0); });
        if (inputs == 3) list.Add(text + " d, a, b, c;", compute);
      }
    }
  }
}

// -0 is smaller than +0. A number is preferred to a NaN, or a NaN to all.
template <typename T>
T MinMax(T a, T b, bool is_max, bool nan) {
  if (std::isnan(a) || std::isnan(b)) {
    if (nan || (std::isnan(a) && std::isnan(b))) return std::numeric_limits<T>::quiet_NaN();
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) == is_max ? b : a;
  return (a < b) == is_max ? b : a;
}

template <typename T>
void AddType(FormList& list, const std::string& t) {
  AddRoundings<T>(
      list, "add", t, 2, [](T a, T b, T) { return a + b; },
      [](Wide a, Wide b, Wide) { return a + b; }, true, true);
  AddRoundings<T>(
      list, "sub", t, 2, [](T a, T b, T) { return a - b; },
      [](Wide a, Wide b, Wide) { return a - b; }, true, true);
  AddRoundings<T>(
      list, "mul", t, 2, [](T a, T b, T) { return a * b; },
      [](Wide a, Wide b, Wide) { return a * b; }, true, true);
  AddRoundings<T>(
      list, "fma", t, 3, [](T a, T b, T c) { return std::fma(a, b, c); },
      [](Wide a, Wide b, Wide c) { return AddToOdd(a * b, c); }, true, false);
  AddRoundings<T>(
      list, "mad", t, 3, [](T a, T b, T c) { return std::fma(a, b, c); },
      [](Wide a, Wide b, Wide c) { return AddToOdd(a * b, c); }, true, false);
  AddRoundings<T>(
      list, "div", t, 2, [](T a, T b, T) { return a / b; },
      [](Wide a, Wide b, Wide) { return a / b; }, false, false);
  AddRoundings<T>(
      list, "rcp", t, 1, [](T a, T, T) { return 1 / a; }, [](Wide a, Wide, Wide) { return 1 / a; },
      false, false);
  AddRoundings<T>(
      list, "sqrt", t, 1, [](T a, T, T) { return std::sqrt(a); },
      [](Wide a, Wide, Wide) { return a; }, false, false);
  for (const bool flush : {false, true}) {
    if (flush && sizeof(T) != 4) continue;
    const std::string ftz = flush ? ".ftz." : ".";
    for (const bool is_max : {false, true}) {
      const std::string name = is_max ? "max" : "min";
      list.Add(name + ftz + t + " d, a, b;", [=](T a, T b) {
        return MinMax(FlushIf(flush, a), FlushIf(flush, b), is_max, false);
      });
      if (sizeof(T) != 4) continue;
      list.Add(name + (flush ? ".ftz" : "") + ".NaN." + t + " d, a, b;", [=](T a, T b) {
        return MinMax(FlushIf(flush, a), FlushIf(flush, b), is_max, true);
      });
      for (const bool nan : {false, true}) {
        list.Add(
            name + (flush ? ".ftz" : "") + (nan ? ".NaN" : "") + ".xorsign.abs." + t + " d, a, b;",
            [=](T a, T b) {
              a = FlushIf(flush, a);
              b = FlushIf(flush, b);
              const T sign = std::signbit(a) != std::signbit(b) ? T{-1} : T{1};
              return std::copysign(MinMax(std::fabs(a), std::fabs(b), is_max, nan), sign);
            });
      }
    }
    list.Add("abs" + ftz + t + " d, a;", [=](T a) { return std::fabs(FlushIf(flush, a)); });
    list.Add("neg" + ftz + t + " d, a;", [=](T a) { return -FlushIf(flush, a); });
  }
  list.Add("copysign." + t + " d, a, b;", [](T a, T b) { return std::copysign(b, a); });
  list.Add("testp.finite." + t + " d, a;", [](T a) { return bool{std::isfinite(a)}; });
  list.Add("testp.infinite." + t + " d, a;", [](T a) { return bool{std::isinf(a)}; });
  list.Add("testp.number." + t + " d, a;", [](T a) { return !std::isnan(a); });
  list.Add("testp.notanumber." + t + " d, a;", [](T a) { return bool{std::isnan(a)}; });
  list.Add("testp.normal." + t + " d, a;",
           [](T a) { return std::fpclassify(a) == FP_NORMAL || a == 0; });
  list.Add("testp.subnormal." + t + " d, a;",
           [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
  list.Add("mov." + t + " d, a;", [](T a) { return a; });
  list.Add("selp." + t + " d, a, b, c;", [](T a, T b, bool c) { return c ? a : b; });
}

}  // namespace

void AddFloatForms() {
  FormList list("float");
  AddType<float>(list, "f32");
  AddType<double>(list, "f64");
}

}  // namespace cuspan::ptx_forms
