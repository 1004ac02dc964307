// cvt. (PTX ISA, "cvt", "cvt.pack")
#include <algorithm>
#include <cmath>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

constexpr struct {
  const char* name;
  const char* integral;
  Mode mode;
} kModes[] = {{"rn", "rni", Mode::kNearest},
              {"rz", "rzi", Mode::kZero},
              {"rm", "rmi", Mode::kDown},
              {"rp", "rpi", Mode::kUp}};

template <typename T>
Wide Exact(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bf16>) {
    return static_cast<Wide>(ToDouble(x));
  } else {
    return static_cast<Wide>(x);
  }
}

template <typename T>
bool IsNan(T x) {
  const Wide value = Exact(x);
  return value != value;
}

// Rounds to T and keeps the sign of a zero.
template <typename T>
T Nearest(Wide x, Mode mode) {
  if constexpr (std::is_same_v<T, Half>) {
    return ToHalf(x, mode);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return ToBf16(x, mode);
  } else if constexpr (std::is_same_v<T, float>) {
    return ToFloat(x, mode);
  } else {
    const auto value = static_cast<double>(RoundTo(kDoubleFormat, x, mode));
    return value == 0 && std::signbit(static_cast<double>(x)) ? -0.0 : value;
  }
}

double Integral(double x, Mode mode) {
  switch (mode) {
    case Mode::kZero:
      return std::trunc(x);
    case Mode::kDown:
      return std::floor(x);
    case Mode::kUp:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

template <typename To, typename From>
void AddIntegers(FormList& list, const std::string& to, const std::string& from) {
  list.Add("cvt." + to + "." + from + " d, a;", [](From a) { return static_cast<To>(a); });
  // If all values are in range, .sat does not exist.
  using ToLimits = std::numeric_limits<To>;
  using FromLimits = std::numeric_limits<From>;
  if (static_cast<__int128>(FromLimits::min()) >= ToLimits::min() &&
      static_cast<__int128>(FromLimits::max()) <= ToLimits::max())
    return;
  list.Add("cvt.sat." + to + "." + from + " d, a;", [](From a) {
    return static_cast<To>(
        std::clamp<__int128>(a, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
  });
}

template <typename To>
void AddFromIntegers(FormList& list, const std::string& to) {
  AddIntegers<To, std::uint16_t>(list, to, "u16");
  AddIntegers<To, std::int16_t>(list, to, "s16");
  AddIntegers<To, std::uint32_t>(list, to, "u32");
  AddIntegers<To, std::int32_t>(list, to, "s32");
  AddIntegers<To, std::uint64_t>(list, to, "u64");
  AddIntegers<To, std::int64_t>(list, to, "s64");
}

template <typename F, typename I>
void AddBetween(FormList& list, const std::string& f, const std::string& i) {
  for (const auto& mode : kModes) {
    const Mode m = mode.mode;
    list.Add(std::string("cvt.") + mode.name + "." + f + "." + i + " d, a;",
             [m](I a) { return Nearest<F>(static_cast<Wide>(a), m); });
    const auto to_integer = [m](F a, bool flush) {
      if (IsNan(a)) {
        const bool top_bit = std::is_same_v<F, double> || sizeof(I) == 8;
        return static_cast<I>(top_bit ? std::uint64_t{1} << (sizeof(I) * 8 - 1) : 0);
      }
      double x = static_cast<double>(Exact(a));
      if (flush && std::fabs(x) < 0x1p-126) x = 0;
      const double whole = Integral(x, m);
      // The limits as doubles may be one too large; the comparisons allow for this.
      if (whole >= std::ldexp(1.0, std::numeric_limits<I>::digits))
        return std::numeric_limits<I>::max();
      if (whole <= static_cast<double>(std::numeric_limits<I>::min()))
        return std::numeric_limits<I>::min();
      return static_cast<I>(whole);
    };
    list.Add(std::string("cvt.") + mode.integral + "." + i + "." + f + " d, a;",
             [=](F a) { return to_integer(a, false); });
    if (std::is_same_v<F, float>)
      list.Add(std::string("cvt.") + mode.integral + ".ftz." + i + "." + f + " d, a;",
               [=](F a) { return to_integer(a, true); });
  }
}

template <typename F>
void AddIntegersOf(FormList& list, const std::string& f) {
  AddBetween<F, std::uint16_t>(list, f, "u16");
  AddBetween<F, std::int16_t>(list, f, "s16");
  AddBetween<F, std::uint32_t>(list, f, "u32");
  AddBetween<F, std::int32_t>(list, f, "s32");
  AddBetween<F, std::uint64_t>(list, f, "u64");
  AddBetween<F, std::int64_t>(list, f, "s64");
}

// Rounding to an integer within a type.
template <typename F>
void AddIntegral(FormList& list, const std::string& f) {
  for (const auto& mode : kModes) {
    const Mode m = mode.mode;
    list.Add(std::string("cvt.") + mode.integral + "." + f + "." + f + " d, a;", [m](F a) {
      const auto x = static_cast<double>(Exact(a));
      const double whole = Integral(x, m);
      return Nearest<F>(static_cast<Wide>(whole == 0 ? std::copysign(0.0, x) : whole),
                        Mode::kNearest);
    });
  }
}

template <typename To, typename From>
void AddNarrowing(FormList& list, const std::string& types) {
  for (const auto& mode : kModes) {
    const Mode m = mode.mode;
    list.Add(std::string("cvt.") + mode.name + "." + types + " d, a;",
             [m](From a) { return Nearest<To>(Exact(a), m); });
  }
}

template <typename To, typename From>
void AddWidening(FormList& list, const std::string& types) {
  list.Add("cvt." + types + " d, a;", [](From a) { return Nearest<To>(Exact(a), Mode::kNearest); });
}

void AddFloats(FormList& list) {
  AddNarrowing<float, double>(list, "f32.f64");
  AddNarrowing<Half, float>(list, "f16.f32");
  AddNarrowing<Half, double>(list, "f16.f64");
  AddNarrowing<Bf16, float>(list, "bf16.f32");
  AddNarrowing<Bf16, double>(list, "bf16.f64");
  AddNarrowing<Half, Bf16>(list, "f16.bf16");
  AddNarrowing<Bf16, Half>(list, "bf16.f16");
  AddWidening<double, float>(list, "f64.f32");
  AddWidening<float, Half>(list, "f32.f16");
  AddWidening<double, Half>(list, "f64.f16");
  AddWidening<float, Bf16>(list, "f32.bf16");
  AddWidening<double, Bf16>(list, "f64.bf16");
  for (const auto& mode : kModes) {
    const Mode m = mode.mode;
    list.Add(std::string("cvt.") + mode.name + ".ftz.f32.f64 d, a;", [m](double a) {
      const Wide exact = Exact(a);
      const auto rounded = Nearest<float>(exact, m);
      return IsFlushed(kFloatFormat, exact, m) ? std::copysign(0.0F, rounded) : rounded;
    });
  }
  list.Add("cvt.rn.sat.f32.f64 d, a;",
           [](double a) { return ToFloat(static_cast<Wide>(Saturated(a))); });
  list.Add("cvt.sat.f32.f32 d, a;", [](float a) { return Saturated(a); });
  list.Add("cvt.ftz.f64.f32 d, a;", [](float a) { return double{Flush(a)}; });
  list.Add("cvt.rni.ftz.f32.f32 d, a;", [](float a) { return std::nearbyint(Flush(a)); });
  list.Add("cvt.rzi.sat.f32.f32 d, a;", [](float a) { return Saturated(std::trunc(a)); });
  list.Add("cvt.rna.tf32.f32 d, a;",
           [](float a) {
             return ToFloat(RoundTo(kTf32Format, static_cast<Wide>(a), Mode::kNearestAway) == 0
                                ? std::copysign(0.0, a)
                                : RoundTo(kTf32Format, static_cast<Wide>(a), Mode::kNearestAway));
           })
      .defined = When<float>([](float a) { return !std::isnan(a); });
  const auto relu = [](float a) { return std::isnan(a) ? a : a > 0 ? a : 0.0F; };
  list.Add("cvt.rn.relu.f16.f32 d, a;", [=](float a) { return ToHalf(Exact(relu(a))); });
  list.Add("cvt.rn.relu.bf16.f32 d, a;", [=](float a) { return ToBf16(Exact(relu(a))); });
  for (const bool clip : {false, true}) {
    const std::string name = clip ? "cvt.rn.relu." : "cvt.rn.";
    const auto pick = [=](float a) { return clip ? relu(a) : a; };
    list.Add(name + "f16x2.f32 d, a, b;", [=](float a, float b) {
      return Half2{ToHalf(Exact(pick(b))), ToHalf(Exact(pick(a)))};
    });
    list.Add(name + "bf16x2.f32 d, a, b;", [=](float a, float b) {
      return Bf162{ToBf16(Exact(pick(b))), ToBf16(Exact(pick(a)))};
    });
  }
  list.Add("cvt.rz.f16x2.f32 d, a, b;", [=](float a, float b) {
    return Half2{ToHalf(Exact(b), Mode::kZero), ToHalf(Exact(a), Mode::kZero)};
  });
  list.Add("cvt.rz.bf16x2.f32 d, a, b;", [=](float a, float b) {
    return Bf162{ToBf16(Exact(b), Mode::kZero), ToBf16(Exact(a), Mode::kZero)};
  });
}

// OCP 8-bit Floating Point Specification, with saturation to the largest number.
std::uint8_t ToByte(float x, bool e4m3) {
  if (std::isnan(x)) return 0x7f;
  const Format format = e4m3 ? Format{4, -6, 8} : Format{3, -14, 15};
  const double largest = e4m3 ? 448 : 57344;
  const double value = std::min(
      std::fabs(static_cast<double>(RoundTo(format, static_cast<Wide>(x), Mode::kNearest))),
      largest);
  const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (value == 0) return sign;
  const int bits = format.digits - 1;
  const int exponent = std::max(std::ilogb(value), format.lowest);
  const auto units = static_cast<int>(std::ldexp(value, bits - exponent));
  return static_cast<std::uint8_t>(sign | (units + ((exponent - format.lowest) << bits)));
}

Half FromByte(std::uint8_t byte, bool e4m3) {
  if (!e4m3) return {static_cast<std::uint16_t>((byte & 0x7f) > 0x7c ? 0x7fff : byte << 8)};
  if ((byte & 0x7f) == 0x7f) return {0x7fff};
  const int exponent = byte >> 3 & 15, fraction = byte & 7;
  const double value =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(fraction + 8, exponent - 10);
  return ToHalf(static_cast<Wide>((byte & 0x80) != 0 ? -value : value));
}

void AddBytes(FormList& list) {
  for (const bool e4m3 : {true, false}) {
    const std::string type = e4m3 ? "e4m3x2" : "e5m2x2";
    for (const bool clip : {false, true}) {
      const std::string relu = clip ? ".relu" : "";
      const auto byte = [=](float x) {
        return ToByte(clip && !std::isnan(x) ? std::max(x, 0.0F) + 0.0F : x, e4m3);
      };
      list.Add("cvt.rn.satfinite" + relu + "." + type + ".f32 d, a, b;", [=](float a, float b) {
        return static_cast<std::uint16_t>(byte(a) << 8 | byte(b));
      });
      list.Add("cvt.rn.satfinite" + relu + "." + type + ".f16x2 d, a;", [=](Half2 a) {
        return static_cast<std::uint16_t>(byte(static_cast<float>(ToDouble(a.high))) << 8 |
                                          byte(static_cast<float>(ToDouble(a.low))));
      });
      list.Add("cvt.rn" + relu + ".f16x2." + type + " d, a;", [=](std::uint16_t a) {
        const auto half = [=](std::uint8_t bits) {
          const Half h = FromByte(bits, e4m3);
          return clip && (h.bits & 0x8000) != 0 ? Half{0} : h;
        };
        return Half2{half(static_cast<std::uint8_t>(a)), half(static_cast<std::uint8_t>(a >> 8))};
      });
    }
  }
}

template <typename T>
void AddPack(FormList& list, const std::string& to) {
  constexpr unsigned kBits = sizeof(T) * 8;
  const auto part = [](std::int32_t x) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(x, std::numeric_limits<T>::min(),
                                                               std::numeric_limits<T>::max())) &
           ((1U << kBits) - 1);
  };
  if constexpr (kBits == 16) {
    list.Add("cvt.pack.sat." + to + ".s32 d, a, b;",
             [=](std::int32_t a, std::int32_t b) { return part(a) << kBits | part(b); });
  } else {
    list.Add("cvt.pack.sat." + to + ".s32.b32 d, a, b, c;",
             [=](std::int32_t a, std::int32_t b, std::uint32_t c) {
               return part(a) << kBits | part(b) | c << 2 * kBits;
             });
  }
}

}  // namespace

void AddConvertForms() {
  FormList list("convert");
  AddFromIntegers<std::uint16_t>(list, "u16");
  AddFromIntegers<std::int16_t>(list, "s16");
  AddFromIntegers<std::uint32_t>(list, "u32");
  AddFromIntegers<std::int32_t>(list, "s32");
  AddFromIntegers<std::uint64_t>(list, "u64");
  AddFromIntegers<std::int64_t>(list, "s64");
  // Types of 8 bits are in registers of 16 or more.
  list.Add("cvt.u32.u8 d, a;", [](std::uint32_t a) { return a & 0xff; });
  list.Add("cvt.s32.s8 d, a;",
           [](std::int32_t a) { return std::int32_t{static_cast<std::int8_t>(a)}; });
  list.Add("cvt.s16.s8 d, a;",
           [](std::int16_t a) { return std::int16_t{static_cast<std::int8_t>(a)}; });
  list.Add("cvt.s64.s8 d, a;",
           [](std::int64_t a) { return std::int64_t{static_cast<std::int8_t>(a)}; });
  list.Add("cvt.u16.u8 d, a;",
           [](std::uint16_t a) { return static_cast<std::uint16_t>(a & 0xff); });
  list.Add("cvt.rn.f32.u8 d, a;", [](std::uint16_t a) { return static_cast<float>(a & 0xff); });
  list.Add("cvt.rn.f32.s8 d, a;",
           [](std::int16_t a) { return static_cast<float>(static_cast<std::int8_t>(a)); });
  AddIntegersOf<float>(list, "f32");
  AddIntegersOf<double>(list, "f64");
  AddIntegersOf<Half>(list, "f16");
  AddIntegersOf<Bf16>(list, "bf16");
  AddIntegral<float>(list, "f32");
  AddIntegral<double>(list, "f64");
  AddIntegral<Half>(list, "f16");
  AddFloats(list);
  AddBytes(list);
  AddPack<std::uint16_t>(list, "u16");
  AddPack<std::int16_t>(list, "s16");
  AddPack<std::uint8_t>(list, "u8");
  AddPack<std::int8_t>(list, "s8");
}

}  // namespace cuspan::ptx_forms
