// cvt and cvt.pack. (PTX ISA, "Data Movement and Conversion Instructions: cvt")
#include <llvm/IR/Intrinsics.h>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Type;

bool IsInteger(Type type) { return (TypeSetOf(type) & (kIntegers | kBytes)) != 0; }

// Reads the rounding to an integral number: .rni, .rzi, .rmi, .rpi.
llvm::Intrinsic::ID ConsumeIntegralRounding(FunctionEmitter& e) {
  if (e.Consume("rni")) return llvm::Intrinsic::roundeven;
  if (e.Consume("rzi")) return llvm::Intrinsic::trunc;
  if (e.Consume("rmi")) return llvm::Intrinsic::floor;
  if (e.Consume("rpi")) return llvm::Intrinsic::ceil;
  return llvm::Intrinsic::not_intrinsic;
}

Value* MaxOf(FunctionEmitter& e, unsigned bits, unsigned width, bool is_signed) {
  const auto max = is_signed ? llvm::APInt::getSignedMaxValue(bits).sext(width)
                             : llvm::APInt::getMaxValue(bits).zext(width);
  return llvm::ConstantInt::get(e.Int(width), max);
}
Value* MinOf(FunctionEmitter& e, unsigned bits, unsigned width, bool is_signed) {
  const auto min =
      is_signed ? llvm::APInt::getSignedMinValue(bits).sext(width) : llvm::APInt(width, 0);
  return llvm::ConstantInt::get(e.Int(width), min);
}

void IntegerToInteger(FunctionEmitter& e, Type to, Type from) {
  constexpr unsigned kWide = 128;  // Holds all signed and unsigned 64-bit values.
  const bool saturate = e.Consume("sat");
  auto* const value = e.Read(1, from);
  const unsigned bits = ptx::BitsOf(to);
  const bool from_signed = ptx::IsSigned(from);
  if (!saturate) {
    auto* const target = e.TypeOf(to);
    e.Write(
        from_signed ? e.b.CreateSExtOrTrunc(value, target) : e.b.CreateZExtOrTrunc(value, target),
        to);
    return;
  }
  Value* wide =
      from_signed ? e.b.CreateSExt(value, e.Int(kWide)) : e.b.CreateZExt(value, e.Int(kWide));
  wide = IntegerMinMax(e, wide, MaxOf(e, bits, kWide, ptx::IsSigned(to)), false, true);
  wide = IntegerMinMax(e, wide, MinOf(e, bits, kWide, ptx::IsSigned(to)), true, true);
  e.Write(e.b.CreateTrunc(wide, e.TypeOf(to)), to);
}

// Converts a 64-bit integer to a double with the same rounding to narrower formats. The lowest
// digits of a large integer become one sticky bit, far below the digits of these formats.
Value* ToDoubleKeepingInexactness(FunctionEmitter& e, Value* value, bool is_signed) {
  constexpr std::uint64_t kLow = 0xfff;
  auto* const low = e.b.CreateAnd(value, e.ConstInt(64, kLow));
  auto* const sticky =
      e.b.CreateSelect(e.b.CreateIsNull(low), e.ConstInt(64, 0), e.ConstInt(64, (kLow + 1) / 2));
  auto* const shortened = e.b.CreateOr(e.b.CreateAnd(value, e.ConstInt(64, ~kLow)), sticky);
  auto* const magnitude =
      is_signed ? e.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, value, e.b.getFalse()) : value;
  auto* const large = e.b.CreateICmpUGT(magnitude, e.ConstInt(64, std::uint64_t{1} << 32));
  auto* const kept = e.b.CreateSelect(large, shortened, value);
  return is_signed ? e.b.CreateSIToFP(kept, e.Double()) : e.b.CreateUIToFP(kept, e.Double());
}

void IntegerToFloat(FunctionEmitter& e, Type to, Type from) {
  const Rounding rounding = e.ConsumeRounding(Rounding::kNearest);
  const bool saturate = e.Consume("sat");
  e.Consume("ftz");  // No integer becomes subnormal.
  auto* const value = e.Read(1, from);
  const bool is_signed = ptx::IsSigned(from);
  const auto convert = [&](llvm::Type* type) {
    return is_signed ? e.b.CreateSIToFP(value, type) : e.b.CreateUIToFP(value, type);
  };
  Value* result = nullptr;
  const bool exact_in_double = ptx::BitsOf(from) <= 32;
  if (to == Type::kF64 && (exact_in_double || rounding == Rounding::kNearest)) {
    result = convert(e.Double());
  } else if (to == Type::kF32 && rounding == Rounding::kNearest) {
    result = convert(e.Float());
  } else if (exact_in_double) {
    result = NarrowFloat(e, convert(e.Double()), Type::kF64, to, rounding);
  } else if (to == Type::kF32 || to == Type::kF64) {
    static constexpr std::string_view kRoundings[] = {"rn", "rz", "rm", "rp"};
    result =
        e.CallRuntime(Format("cuspan_math_cvt_{}_{}_{}", kRoundings[static_cast<int>(rounding)],
                             to == Type::kF32 ? "f32" : "f64", is_signed ? "s64" : "u64"),
                      e.TypeOf(to), {value}, true);
  } else {
    result =
        NarrowFloat(e, ToDoubleKeepingInexactness(e, value, is_signed), Type::kF64, to, rounding);
  }
  if (saturate) result = Narrow(e, Saturate(e, Widen(e, result, to)), to);
  e.Write(result, to);
}

void FloatToInteger(FunctionEmitter& e, Type to, Type from) {
  const auto integral = ConsumeIntegralRounding(e);
  if (integral == llvm::Intrinsic::not_intrinsic) e.Reject("a rounding to an integer is expected");
  e.Consume("sat");  // Implied.
  const bool flush = e.Consume("ftz");
  Value* value = e.Read(1, from);
  if (e.failed()) return;
  value = Widen(e, value, from);
  if (from == Type::kF16) value = e.b.CreateFPExt(value, e.Float());
  if (flush) value = FlushSubnormal(e, value);
  auto* const is_nan = e.b.CreateFCmpUNO(value, value);
  value = e.b.CreateUnaryIntrinsic(integral, value);
  const bool is_signed = ptx::IsSigned(to);
  const unsigned bits = ptx::BitsOf(to);
  // Narrow integers are computed with 32 bits, then clamped.
  const unsigned computed = bits < 32 ? 32 : bits;
  const bool computed_signed = is_signed || bits < 32;
  Value* result = e.b.CreateIntrinsic(
      computed_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
      {e.Int(computed), value->getType()}, {value});
  if (bits < 32) {
    result = IntegerMinMax(e, result, MaxOf(e, bits, 32, is_signed), false, true);
    result = IntegerMinMax(e, result, MinOf(e, bits, 32, is_signed), true, true);
    result = e.b.CreateTrunc(result, e.Int(bits));
  }
  // A NaN gives zero; if either type has 64 bits, only the top bit is set.
  const bool top_bit = from == Type::kF64 || bits == 64;
  auto* const nan_result = e.ConstInt(bits, top_bit ? std::uint64_t{1} << (bits - 1) : 0);
  e.Write(e.b.CreateSelect(is_nan, nan_result, result), to);
}

// Widens f16, bf16, f32 or f64 to f32, or to f64 if this is `target`.
Value* WidenTo(FunctionEmitter& e, Value* value, Type from, Type target) {
  value = Widen(e, value, from);
  if (from == Type::kF16) value = e.b.CreateFPExt(value, e.Float());
  if (target == Type::kF64 && from != Type::kF64) value = e.b.CreateFPExt(value, e.Double());
  return value;
}

// Rounds f32 to a mantissa of 10 bits: .rna rounds ties away, .rn to even.
Value* RoundToTf32(FunctionEmitter& e, Value* value) {
  const bool away = e.Consume("rna");
  const bool nearest_even = !away && e.Consume("rn");
  const bool towards_zero = !away && !nearest_even && e.Consume("rz");
  if (!away && !nearest_even && !towards_zero) e.Reject("a rounding is expected");
  auto* const bits = e.b.CreateBitCast(value, e.Int(32));
  Value* rounded = bits;
  if (away) rounded = e.b.CreateAdd(bits, e.ConstInt(32, 0x1000));
  if (nearest_even) {
    auto* const low = e.b.CreateAnd(e.b.CreateLShr(bits, e.ConstInt(32, 13)), e.ConstInt(32, 1));
    rounded = e.b.CreateAdd(bits, e.b.CreateAdd(e.ConstInt(32, 0xfff), low));
  }
  rounded = e.b.CreateAnd(rounded, e.ConstInt(32, 0xffffe000));
  return e.b.CreateSelect(e.b.CreateFCmpUNO(value, value), e.ConstInt(32, 0x7fffffff), rounded);
}

struct FloatConversion {
  Rounding rounding;
  bool flush;
  bool saturate;
  bool relu;
  bool finite;
};

FloatConversion ConsumeFloatConversion(FunctionEmitter& e) {
  FloatConversion c{};
  c.rounding = e.ConsumeRounding(Rounding::kNearest);
  c.flush = e.Consume("ftz");
  c.saturate = e.Consume("sat");
  c.relu = e.Consume("relu");
  c.finite = e.Consume("satfinite");
  return c;
}

// Converts one float to another format, with all modifiers of the instruction.
Value* ConvertFloat(FunctionEmitter& e, const FloatConversion& c, Value* value, Type from,
                    Type to) {
  if (c.flush && from == Type::kF32) value = FlushSubnormal(e, value);
  const Type through = from == Type::kF64 || to == Type::kF64 ? Type::kF64 : Type::kF32;
  value = WidenTo(e, value, from, through);
  if (c.saturate) value = Saturate(e, value);
  auto* const zero = llvm::ConstantFP::getZero(value->getType());
  if (c.relu) value = FloatMinMax(e, value, zero, true, true);
  if (c.finite) {
    auto* const largest =
        llvm::ConstantFP::get(value->getType(), to == Type::kF16 ? 65504.0 : 0x1.fep127);
    value = FloatMinMax(e, FloatMinMax(e, value, largest, false, true), FloatNeg(e, largest), true,
                        true);
  }
  if (to != through) {
    auto* const wide = value;
    value = NarrowFloat(e, wide, through, to, c.rounding);
    if (c.flush && through == Type::kF64 && to == Type::kF32)
      value = FlushWhere(e, IsTinyInF32(e, wide, c.rounding), value);
  }
  if (c.flush && to == Type::kF32) value = FlushSubnormal(e, value);
  return value;
}

void FloatToFloat(FunctionEmitter& e, Type to, Type from) {
  if (to == Type::kTf32) {
    auto* const value = e.Read(1, Type::kF32);
    if (!e.failed()) e.Write(RoundToTf32(e, value), Type::kB32);
    return;
  }
  const auto integral = ConsumeIntegralRounding(e);
  const FloatConversion c = ConsumeFloatConversion(e);
  Value* value = e.Read(1, from);
  if (e.failed()) return;
  if (integral == llvm::Intrinsic::not_intrinsic) {
    e.Write(ConvertFloat(e, c, value, from, to), to);
    return;
  }
  if (to != from) {
    e.Reject("rounding to an integer does not change the type");
    return;
  }
  value = WidenTo(e, value, from, from);
  if (c.flush) value = FlushSubnormal(e, value);
  value = e.b.CreateUnaryIntrinsic(integral, value);
  if (c.saturate) value = Saturate(e, value);
  if (from == Type::kF16) value = e.b.CreateFPTrunc(value, e.Half());
  e.Write(Narrow(e, value, to), to);
}

std::string_view ByteFormat(Type packed) { return packed == Type::kE4m3x2 ? "e4m3" : "e5m2"; }

// cvt.rn.satfinite.e4m3x2.f32 d, a, b: a in the upper byte, b in the lower; or both halves of
// .f16x2.
void PackBytes(FunctionEmitter& e, Type to) {
  const FloatConversion c = ConsumeFloatConversion(e);
  const Type from = e.type(1);
  const std::size_t inputs = from == Type::kF32 ? 2 : 1;
  if (!c.finite || (from != Type::kF32 && from != Type::kF16x2) ||
      e.operand_count() != inputs + 1) {
    e.Refuse("this conversion is not implemented");
    return;
  }
  Value* const packed = e.Read(1, from);
  const auto input = [&](unsigned half) -> Value* {
    if (from == Type::kF32) return half == 1 ? packed : e.Read(2, from);
    auto* const bits =
        e.b.CreateTrunc(e.b.CreateLShr(packed, e.ConstInt(32, 16 * half)), e.Int(16));
    return e.b.CreateFPExt(e.b.CreateBitCast(bits, e.Half()), e.Float());
  };
  const auto byte = [&](unsigned half) {
    Value* value = input(half);
    if (c.relu) value = FloatMinMax(e, value, llvm::ConstantFP::getZero(e.Float()), true, true);
    return e.CallRuntime(Format("cuspan_math_encode_{}", ByteFormat(to)), e.Int(32), {value}, true);
  };
  auto* const high = byte(1);
  auto* const both = e.b.CreateOr(e.b.CreateShl(high, e.ConstInt(32, 8)), byte(0));
  e.Write(e.b.CreateTrunc(both, e.Int(16)), Type::kB16);
}

// cvt.rn.f16x2.e4m3x2 d, a: exact.
void UnpackBytes(FunctionEmitter& e, Type from) {
  const FloatConversion c = ConsumeFloatConversion(e);
  auto* const packed = e.b.CreateZExt(e.Read(1, from), e.Int(32));
  const auto half = [&](unsigned index) -> Value* {
    auto* const byte =
        e.b.CreateAnd(e.b.CreateLShr(packed, e.ConstInt(32, 8 * index)), e.ConstInt(32, 0xff));
    Value* value =
        e.CallRuntime(Format("cuspan_math_decode_{}", ByteFormat(from)), e.Float(), {byte}, true);
    if (c.relu) value = FloatMinMax(e, value, llvm::ConstantFP::getZero(e.Float()), true, true);
    auto* const bits = e.b.CreateBitCast(e.b.CreateFPTrunc(value, e.Half()), e.Int(16));
    // NaN as produced by hardware.
    auto* const canonical =
        e.b.CreateSelect(e.b.CreateFCmpUNO(value, value), e.ConstInt(16, 0x7fff), bits);
    return e.b.CreateZExt(canonical, e.Int(32));
  };
  auto* const high = half(1);
  e.Write(e.b.CreateOr(e.b.CreateShl(high, e.ConstInt(32, 16)), half(0)), Type::kB32);
}

// cvt.rn.f16x2.f32 d, a, b: a in the upper half, b in the lower.
void PackFloats(FunctionEmitter& e, Type to) {
  if (e.type(1) != Type::kF32 || e.operand_count() != 3) {
    e.Refuse("this conversion is not implemented");
    return;
  }
  const FloatConversion c = ConsumeFloatConversion(e);
  const Type element = to == Type::kF16x2 ? Type::kF16 : Type::kBf16;
  const auto half = [&](std::size_t i) -> Value* {
    auto* const value = ConvertFloat(e, c, e.Read(i, Type::kF32), Type::kF32, element);
    return e.b.CreateZExt(e.b.CreateBitCast(value, e.Int(16)), e.Int(32));
  };
  auto* const high = half(1);
  e.Write(e.b.CreateOr(e.b.CreateShl(high, e.ConstInt(32, 16)), half(2)), Type::kB32);
}

// cvt.pack.sat.{u16,s16,u8,s8}.s32{.b32} d, a, b{, c}
void PackIntegers(FunctionEmitter& e) {
  if (!e.Consume("sat")) e.Reject("cvt.pack needs .sat");
  const Type to = e.type(0);
  const unsigned bits = ptx::BitsOf(to);
  if (e.type(1) != Type::kS32 || (bits != 8 && bits != 16))
    e.Refuse("this packing is not implemented");
  if (e.failed()) return;
  const auto part = [&](std::size_t i) {
    Value* value = e.Read(i, Type::kS32);
    value = IntegerMinMax(e, value, MaxOf(e, bits, 32, ptx::IsSigned(to)), false, true);
    value = IntegerMinMax(e, value, MinOf(e, bits, 32, ptx::IsSigned(to)), true, true);
    return e.b.CreateAnd(value, e.ConstInt(32, (1U << bits) - 1));
  };
  Value* result = e.b.CreateOr(e.b.CreateShl(part(1), e.ConstInt(32, bits)), part(2));
  if (e.operand_count() == 4)
    result = e.b.CreateOr(result, e.b.CreateShl(e.Read(3, Type::kB32), e.ConstInt(32, 2 * bits)));
  e.Write(result, Type::kB32);
}

void EmitCvt(FunctionEmitter& e) {
  if (e.Consume("pack")) {
    PackIntegers(e);
    return;
  }
  const Type to = e.type(0);
  const Type from = e.type(1);
  if (ptx::IsPackedByte(to)) {
    PackBytes(e, to);
  } else if (ptx::IsPackedByte(from) && to == Type::kF16x2 && e.operand_count() == 2) {
    UnpackBytes(e, from);
  } else if (ptx::IsPacked(to)) {
    PackFloats(e, to);
  } else if (e.operand_count() != 2) {
    e.Reject("two operands are expected");
  } else if (IsInteger(to) && IsInteger(from)) {
    IntegerToInteger(e, to, from);
  } else if (IsInteger(to) && ptx::IsFloat(from) && from != Type::kTf32) {
    FloatToInteger(e, to, from);
  } else if (ptx::IsFloat(to) && to != Type::kTf32 && IsInteger(from)) {
    IntegerToFloat(e, to, from);
  } else if (ptx::IsFloat(to) && ptx::IsFloat(from) && from != Type::kTf32 &&
             (to != Type::kTf32 || from == Type::kF32)) {
    FloatToFloat(e, to, from);
  } else {
    e.Refuse("this conversion is not implemented");
  }
}

constexpr Opcode kConvertOpcodes[] = {
    {"cvt", 2, 4, kAnyType & ~(kNoType | kPredicates | kWide | kPackedIntegers), EmitCvt},
};

}  // namespace

std::span<const Opcode> ConvertOpcodes() { return kConvertOpcodes; }

}  // namespace cuspan::softgpu::emit
