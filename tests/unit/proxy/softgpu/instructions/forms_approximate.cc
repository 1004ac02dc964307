// Approximations, within the error bounds stated in the PTX ISA.
#include <cmath>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

// Adds a function of one f32, with and without .ftz. `defined` is false for inputs not compared.
template <typename Function>
void AddUnary(FormList& list, const std::string& name, Function function, Tolerance tolerance,
              std::function<bool(float)> defined = {}) {
  for (const bool flush : {false, true}) {
    Form& form = list.Add(
        name + (flush ? ".ftz.f32 d, a;" : ".f32 d, a;"),
        [=](float a) {
          return FlushIf(flush,
                         static_cast<float>(function(static_cast<double>(FlushIf(flush, a)))));
        },
        tolerance);
    if (defined) form.defined = When<float>(defined);
  }
}

}  // namespace

void AddApproximateForms() {
  FormList list("approximate");
  // sin and cos: absolute error 2^-20.5 in [-2π, 2π].
  const auto circle = [](float a) { return !std::isfinite(a) || std::fabs(a) <= 6.2831855F; };
  AddUnary(
      list, "sin.approx", [](double a) { return std::sin(a); }, {0, 0, 0x1.7p-21}, circle);
  AddUnary(
      list, "cos.approx", [](double a) { return std::cos(a); }, {0, 0, 0x1.7p-21}, circle);
  AddUnary(list, "ex2.approx", [](double a) { return std::exp2(a); }, {2, 0, 0});
  // lg2: absolute error 2^-22 in (0.5, 2), relative error 2^-22 elsewhere.
  AddUnary(list, "lg2.approx", [](double a) { return std::log2(a); }, {1, 0x1p-22, 0x1p-22});
  AddUnary(list, "rcp.approx", [](double a) { return 1 / a; }, {1, 0, 0});
  AddUnary(list, "sqrt.approx", [](double a) { return std::sqrt(a); }, {1, 0x1p-23, 0});
  AddUnary(list, "rsqrt.approx", [](double a) { return 1 / std::sqrt(a); }, {2, 0x1.2p-23, 0});
  list.Add("tanh.approx.f32 d, a;", [](float a) { return std::tanh(a); }, {0, 0x1p-11, 0});
  for (const bool flush : {false, true}) {
    const std::string tail = flush ? ".ftz.f32 d, a, b;" : ".f32 d, a, b;";
    const auto quotient = [=](float a, float b) {
      return FlushIf(flush, static_cast<float>(double{FlushIf(flush, a)} / FlushIf(flush, b)));
    };
    // If |b| > 2^126, the result of .approx is 0 or NaN.
    list.Add("div.approx" + tail, quotient, {2, 0, 0}).defined =
        When<float, float>([](float, float b) {
          const float size = std::fabs(b);
          return !(size > 0x1p126F && size < INFINITY) && !(size < 0x1p-126F && size > 0);
        });
    list.Add("div.full" + tail, quotient, {2, 0, 0}).defined =
        When<float, float>([](float a, float b) {
          return std::fpclassify(a) != FP_SUBNORMAL && std::fpclassify(b) != FP_SUBNORMAL;
        });
  }
  // CUDA compiles rsqrt(double) to this, with a documented error of at most 1 ulp.
  list.Add("rsqrt.approx.f64 d, a;", [](double a) { return 1 / std::sqrt(a); }, {2, 0, 0});
  // The f64 forms with .ftz use only the upper halves of argument and result.
  const auto upper = [](double a) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) & 0xffffffff00000000);
  };
  const auto flushed = [](double a) {
    return std::fabs(a) < std::numeric_limits<double>::min() ? std::copysign(0.0, a) : a;
  };
  list.Add("rcp.approx.ftz.f64 d, a;", [=](double a) { return flushed(1 / flushed(upper(a))); },
           {0, 0x1p-20, 0});
  list.Add("rsqrt.approx.ftz.f64 d, a;",
           [=](double a) { return flushed(1 / std::sqrt(flushed(upper(a)))); }, {0, 0x1p-19, 0});
}

}  // namespace cuspan::ptx_forms
