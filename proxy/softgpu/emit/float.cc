// Floating-point operations, and instructions defined only for floating point. (PTX ISA,
// "Floating-Point Instructions")
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {

using llvm::Value;
using ptx::Type;

namespace {

llvm::Constant* FloatConstant(llvm::Type* type, double value) {
  return llvm::ConstantFP::get(type, value);
}

// Smallest normal number of an LLVM floating-point type.
double SmallestNormal(llvm::Type* type) {
  if (type->getScalarType()->isHalfTy()) return 0x1p-14;
  return type->getScalarType()->isFloatTy() ? std::numeric_limits<float>::min()
                                            : std::numeric_limits<double>::min();
}

Value* AsBits(FunctionEmitter& e, Value* value) {
  return e.b.CreateBitCast(value, e.Int(value->getType()->getScalarSizeInBits()));
}

// NaN result of PTX: all bits set except the sign.
Value* CanonicalNan(FunctionEmitter& e, llvm::Type* type) {
  const unsigned bits = type->getScalarSizeInBits();
  return e.b.CreateBitCast(e.ConstInt(bits, (std::uint64_t{1} << (bits - 1)) - 1), type);
}

std::string_view RoundingName(Rounding rounding) {
  static constexpr std::string_view kNames[] = {"rn", "rz", "rm", "rp"};
  return kNames[static_cast<int>(rounding)];
}

// Calls a function of jit/helpers.h for an operation in a rounding not available in LLVM IR.
Value* CallRounded(FunctionEmitter& e, std::string_view operation, llvm::ArrayRef<Value*> inputs,
                   Rounding rounding) {
  auto* const type = inputs[0]->getType();
  return e.CallRuntime(Format("cuspan_math_{}_{}_{}", operation, RoundingName(rounding),
                              type->getScalarType()->isFloatTy() ? "f32" : "f64"),
                       type, inputs, true);
}

// Rounds the exact sum of two doubles to odd. Rounding it again, to a type of at most half the
// digits, then equals rounding the exact sum. (S. Boldo, G. Melquiond: "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd")
Value* AddToOdd(FunctionEmitter& e, Value* x, Value* y) {
  auto* const sum = e.b.CreateFAdd(x, y);
  // Knuth's two-sum: the exact error of the addition.
  auto* const y_part = e.b.CreateFSub(sum, x);
  auto* const x_part = e.b.CreateFSub(sum, y_part);
  auto* const error = e.b.CreateFAdd(e.b.CreateFSub(x, x_part), e.b.CreateFSub(y, y_part));
  auto* const bits = AsBits(e, sum);
  auto* const zero = FloatConstant(e.Double(), 0);
  auto* const inexact = e.b.CreateFCmpONE(error, zero);  // False for NaN: infinities stay.
  auto* const even = e.b.CreateICmpEQ(e.b.CreateAnd(bits, e.ConstInt(64, 1)), e.ConstInt(64, 0));
  // One step towards the error: away from zero if both have the same sign.
  auto* const outwards =
      e.b.CreateICmpEQ(e.b.CreateFCmpOLT(error, zero), e.b.CreateFCmpOLT(sum, zero));
  auto* const step =
      e.b.CreateSelect(outwards, e.ConstInt(64, 1), e.ConstInt(64, ~std::uint64_t{0}));
  auto* const odd = e.b.CreateBitCast(e.b.CreateAdd(bits, step), e.Double());
  return e.b.CreateSelect(e.b.CreateAnd(inexact, even), odd, sum);
}

// Rounds a double to f32, to odd.
Value* NarrowToOdd(FunctionEmitter& e, Value* value) {
  auto* const single = e.b.CreateFPTrunc(value, e.Float());
  auto* const back = e.b.CreateFPExt(single, e.Double());
  auto* const bits = AsBits(e, single);
  auto* const inexact = e.b.CreateFCmpONE(back, value);
  auto* const even = e.b.CreateICmpEQ(e.b.CreateAnd(bits, e.ConstInt(32, 1)), e.ConstInt(32, 0));
  auto* const shrunk = e.b.CreateFCmpOLT(FloatAbs(e, back), FloatAbs(e, value));
  auto* const step = e.b.CreateSelect(shrunk, e.ConstInt(32, 1), e.ConstInt(32, 0xffffffff));
  auto* const odd = e.b.CreateBitCast(e.b.CreateAdd(bits, step), e.Float());
  return e.b.CreateSelect(e.b.CreateAnd(inexact, even), odd, single);
}

// Rounds an f32 to the bits of bf16, to nearest even; a NaN becomes PTX's.
Value* RoundToBf16(FunctionEmitter& e, Value* value) {
  auto* const bits = AsBits(e, value);
  auto* const low = e.b.CreateAnd(e.b.CreateLShr(bits, e.ConstInt(32, 16)), e.ConstInt(32, 1));
  auto* const rounded = e.b.CreateAdd(bits, e.b.CreateAdd(e.ConstInt(32, 0x7fff), low));
  auto* const high = e.b.CreateTrunc(e.b.CreateLShr(rounded, e.ConstInt(32, 16)), e.Int(16));
  return e.b.CreateSelect(e.b.CreateFCmpUNO(value, value), e.ConstInt(16, 0x7fff), high);
}

}  // namespace

Value* Widen(FunctionEmitter& e, Value* value, Type type) {
  if (type != Type::kBf16) return value;
  auto* const bits = e.b.CreateShl(e.b.CreateZExt(value, e.Int(32)), e.ConstInt(32, 16));
  return e.b.CreateBitCast(bits, e.Float());
}

Value* Narrow(FunctionEmitter& e, Value* value, Type type) {
  return type == Type::kBf16 ? RoundToBf16(e, value) : value;
}

Value* FlushSubnormal(FunctionEmitter& e, Value* value) {
  auto* const type = value->getType();
  auto* const small =
      e.b.CreateFCmpOLT(FloatAbs(e, value), FloatConstant(type, SmallestNormal(type)));
  auto* const zero =
      e.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, FloatConstant(type, 0), value);
  return e.b.CreateSelect(small, zero, value);
}

Value* FlushWhere(FunctionEmitter& e, Value* tiny, Value* value) {
  auto* const zero = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign,
                                               FloatConstant(value->getType(), 0), value);
  return e.b.CreateSelect(tiny, zero, value);
}

namespace {

// Twice the value of f16, f32 or f64.
Value* Doubled(FunctionEmitter& e, Value* value) {
  return e.b.CreateFMul(value, FloatConstant(value->getType(), 2));
}
// True if a doubled result is below twice the smallest normal number.
Value* IsHalfTiny(FunctionEmitter& e, Value* doubled) {
  return e.b.CreateFCmpOLT(
      FloatAbs(e, doubled),
      FloatConstant(doubled->getType(), 2 * SmallestNormal(doubled->getType())));
}

}  // namespace

Value* IsTinyProduct(FunctionEmitter& e, Value* x, Value* y, Rounding rounding) {
  return IsHalfTiny(e, FloatArithmetic(e, FloatOperation::kMul, x, Doubled(e, y), rounding));
}

Value* IsTinyQuotient(FunctionEmitter& e, Value* x, Value* y, Rounding rounding) {
  return IsHalfTiny(e, FloatArithmetic(e, FloatOperation::kDiv, Doubled(e, x), y, rounding));
}

Value* IsTinySum(FunctionEmitter& e, Value* x, Value* y, Value* z, Type type, Rounding rounding) {
  return IsHalfTiny(e, FusedMultiplyAdd(e, x, Doubled(e, y), Doubled(e, z), type, rounding));
}

Value* IsTinyInF32(FunctionEmitter& e, Value* value, Rounding rounding) {
  return IsHalfTiny(e, NarrowFloat(e, Doubled(e, value), Type::kF64, Type::kF32, rounding));
}

Value* Saturate(FunctionEmitter& e, Value* value) {
  auto* const zero = FloatConstant(value->getType(), 0);
  auto* const one = FloatConstant(value->getType(), 1);
  auto* const positive = e.b.CreateSelect(e.b.CreateFCmpOGT(value, zero), value, zero);
  return e.b.CreateSelect(e.b.CreateFCmpOLT(positive, one), positive, one);
}

Value* FloatAbs(FunctionEmitter& e, Value* value) {
  if (value->getType()->isIntOrIntVectorTy())  // bf16
    return e.b.CreateAnd(value, e.ConstInt(16, 0x7fff));
  return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
}

Value* FloatNeg(FunctionEmitter& e, Value* value) {
  if (value->getType()->isIntOrIntVectorTy()) return e.b.CreateXor(value, e.ConstInt(16, 0x8000));
  return e.b.CreateFNeg(value);
}

Value* FloatMinMax(FunctionEmitter& e, Value* x, Value* y, bool is_max, bool nan_wins) {
  auto* const type = x->getType();
  auto* const x_wins = is_max ? e.b.CreateFCmpOGT(x, y) : e.b.CreateFCmpOLT(x, y);
  Value* result = e.b.CreateSelect(x_wins, x, y);
  // Equal numbers with different bits are zeros; their signs decide.
  auto* const both =
      is_max ? e.b.CreateAnd(AsBits(e, x), AsBits(e, y)) : e.b.CreateOr(AsBits(e, x), AsBits(e, y));
  result = e.b.CreateSelect(e.b.CreateFCmpOEQ(x, y), e.b.CreateBitCast(both, type), result);
  auto* const x_nan = e.b.CreateFCmpUNO(x, x);
  auto* const y_nan = e.b.CreateFCmpUNO(y, y);
  auto* const nan = CanonicalNan(e, type);
  if (nan_wins) return e.b.CreateSelect(e.b.CreateOr(x_nan, y_nan), nan, result);
  result = e.b.CreateSelect(y_nan, x, result);
  result = e.b.CreateSelect(x_nan, y, result);
  return e.b.CreateSelect(e.b.CreateAnd(x_nan, y_nan), nan, result);
}

Value* FloatArithmetic(FunctionEmitter& e, FloatOperation operation, Value* x, Value* y,
                       Rounding rounding) {
  if (rounding != Rounding::kNearest) {
    if (operation == FloatOperation::kSub)
      return FloatArithmetic(e, FloatOperation::kAdd, x, e.b.CreateFNeg(y), rounding);
    const std::string_view name = operation == FloatOperation::kAdd   ? "add"
                                  : operation == FloatOperation::kMul ? "mul"
                                                                      : "div";
    return CallRounded(e, name, {x, y}, rounding);
  }
  switch (operation) {
    case FloatOperation::kAdd:
      return e.b.CreateFAdd(x, y);
    case FloatOperation::kSub:
      return e.b.CreateFSub(x, y);
    case FloatOperation::kMul:
      return e.b.CreateFMul(x, y);
    case FloatOperation::kDiv:
      return e.b.CreateFDiv(x, y);
  }
  return x;
}

Value* FusedMultiplyAdd(FunctionEmitter& e, Value* x, Value* y, Value* z, Type type,
                        Rounding rounding) {
  if (type == Type::kF16 && e.module().host().avx512fp16)
    return e.b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  if (type == Type::kF16 || type == Type::kBf16) {
    // The product is exact in f64; the sum is rounded once.
    const auto wide = [&](Value* v) { return e.b.CreateFPExt(Widen(e, v, type), e.Double()); };
    auto* const sum = AddToOdd(e, e.b.CreateFMul(wide(x), wide(y)), wide(z));
    if (type == Type::kBf16) return RoundToBf16(e, NarrowToOdd(e, sum));
    return e.b.CreateFPTrunc(NarrowToOdd(e, sum), e.Half());
  }
  if (rounding == Rounding::kNearest)
    return e.b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  if (e.module().host().avx512f && !x->getType()->isVectorTy()) {
    // Rounding embedded in the instruction: _MM_FROUND_TO_NEG_INF 1, …_POS_INF 2, …_ZERO 3,
    // …_NO_EXC 8.
    const unsigned control = 8 | (rounding == Rounding::kDown ? 1U
                                  : rounding == Rounding::kUp ? 2U
                                                              : 3U);
    const auto id = type == Type::kF32 ? llvm::Intrinsic::x86_avx512_vfmadd_f32
                                       : llvm::Intrinsic::x86_avx512_vfmadd_f64;
    return e.b.CreateIntrinsic(id, {}, {x, y, z, e.ConstInt(32, control)});
  }
  return CallRounded(e, "fma", {x, y, z}, rounding);
}

Value* NarrowFloat(FunctionEmitter& e, Value* value, Type from, Type to, Rounding rounding) {
  if (to == Type::kBf16) {
    if (from == Type::kF64) value = NarrowToOdd(e, value);
    if (rounding == Rounding::kNearest) return RoundToBf16(e, value);
    // Truncation rounds towards zero; a NaN must not become an infinity.
    auto* const bits = AsBits(e, value);
    Value* cut = e.b.CreateTrunc(e.b.CreateLShr(bits, e.ConstInt(32, 16)), e.Int(16));
    if (rounding != Rounding::kZero) {
      auto* const inexact = e.b.CreateIsNotNull(e.b.CreateAnd(bits, e.ConstInt(32, 0xffff)));
      auto* const negative = e.b.CreateICmpSLT(bits, e.ConstInt(32, 0));
      auto* const side = rounding == Rounding::kDown ? negative : e.b.CreateNot(negative);
      cut = e.b.CreateAdd(cut, e.b.CreateZExt(e.b.CreateAnd(inexact, side), e.Int(16)));
    }
    return e.b.CreateSelect(e.b.CreateFCmpUNO(value, value), e.ConstInt(16, 0x7fff), cut);
  }
  auto* const target = e.TypeOf(to);
  // Without f16 instructions, f64 to f16 takes two steps. The first must not round a tie.
  if (from == Type::kF64 && to == Type::kF16 && rounding == Rounding::kNearest &&
      !e.module().host().avx512fp16)
    return e.b.CreateFPTrunc(NarrowToOdd(e, value), target);
  Value* wide = value;
  if (from == Type::kF64 && to == Type::kF16) wide = NarrowToOdd(e, value);
  auto* const nearest = e.b.CreateFPTrunc(wide, target);
  if (rounding == Rounding::kNearest) return nearest;
  // Steps back if the nearest number is on the wrong side.
  auto* const back = e.b.CreateFPExt(nearest, wide->getType());
  const unsigned bits = target->getScalarSizeInBits();
  auto* const pattern = AsBits(e, nearest);
  auto* const minus_one = e.ConstInt(bits, ~std::uint64_t{0});
  auto* const towards_zero = e.b.CreateAdd(pattern, minus_one);
  auto* const away = e.b.CreateAdd(pattern, e.ConstInt(bits, 1));
  auto* const sign_bit = e.ConstInt(bits, std::uint64_t{1} << (bits - 1));
  auto* const negative = e.b.CreateIsNotNull(e.b.CreateAnd(pattern, sign_bit));
  auto* const is_zero = e.b.CreateIsNull(e.b.CreateAnd(pattern, e.b.CreateNot(sign_bit)));
  Value* wrong = nullptr;
  Value* fixed = nullptr;
  if (rounding == Rounding::kZero) {
    wrong = e.b.CreateFCmpOGT(FloatAbs(e, back), FloatAbs(e, wide));
    fixed = towards_zero;
  } else {
    const bool down = rounding == Rounding::kDown;
    wrong = down ? e.b.CreateFCmpOGT(back, wide) : e.b.CreateFCmpOLT(back, wide);
    auto* const smallest = down ? e.b.CreateOr(sign_bit, e.ConstInt(bits, 1)) : e.ConstInt(bits, 1);
    fixed = e.b.CreateSelect(negative, down ? away : towards_zero, down ? towards_zero : away);
    fixed = e.b.CreateSelect(is_zero, smallest, fixed);
  }
  return e.b.CreateSelect(wrong, e.b.CreateBitCast(fixed, target), nearest);
}

namespace {

// Emits operations with one input and one result of the same type, f32 or f64 (f16 and bf16 are
// computed in f32), with .ftz: rcp, sqrt, sin …
template <typename Operation>
void EmitUnary(FunctionEmitter& e, Operation operation) {
  const bool flush = e.Consume("ftz");
  const auto apply = [&](llvm::ArrayRef<Value*> inputs, Type element) -> Value* {
    Value* value = Widen(e, inputs[0], element);
    if (element == Type::kF16) value = e.b.CreateFPExt(value, e.Float());
    if (flush) value = FlushSubnormal(e, value);
    value = operation(value);
    if (flush) value = FlushSubnormal(e, value);
    if (element == Type::kF16) value = e.b.CreateFPTrunc(value, e.Half());
    return Narrow(e, value, element);
  };
  const Type type = e.type();
  Value* const input = e.Read(1, type);
  if (e.failed()) return;
  e.Write(ptx::IsPacked(type) ? ForHalves(e, type, {input}, apply) : apply({input}, type), type);
}

// PTX approximation, computed by the host's math library.
void EmitApproximation(FunctionEmitter& e, std::string_view function) {
  if (!e.Consume("approx")) e.Refuse("only the .approx form exists");
  EmitUnary(e, [&](Value* value) {
    return e.CallRuntime(Format("cuspan_math_{}_f32", function), value->getType(), {value}, true);
  });
}

void EmitSin(FunctionEmitter& e) { EmitApproximation(e, "sin"); }
void EmitCos(FunctionEmitter& e) { EmitApproximation(e, "cos"); }
void EmitEx2(FunctionEmitter& e) { EmitApproximation(e, "ex2"); }
void EmitLg2(FunctionEmitter& e) { EmitApproximation(e, "lg2"); }
void EmitTanh(FunctionEmitter& e) { EmitApproximation(e, "tanh"); }

// Approximations of f64 use only the upper halves of argument and result.
Value* UpperHalf(FunctionEmitter& e, Value* value) {
  auto* const upper = e.b.CreateAnd(AsBits(e, value), e.ConstInt(64, ~std::uint64_t{0} << 32));
  return e.b.CreateBitCast(upper, value->getType());
}

// Applies an operation to upper halves for approximated f64, else to whole values. `approximate` is
// false for exact forms.
template <typename Operation>
Value* ByUpperHalves(FunctionEmitter& e, bool approximate, Value* value, Operation operation) {
  if (!approximate || e.type() != Type::kF64) return operation(value);
  return UpperHalf(e, operation(UpperHalf(e, value)));
}

void EmitRcp(FunctionEmitter& e) {
  const bool approximate = e.Consume("approx");
  const bool flush = e.instruction().Has("ftz");
  const Rounding rounding = e.ConsumeRounding(Rounding::kNearest);
  EmitUnary(e, [&](Value* value) {
    return ByUpperHalves(e, approximate, value, [&](Value* v) {
      auto* const one = FloatConstant(v->getType(), 1);
      auto* const result = FloatArithmetic(e, FloatOperation::kDiv, one, v, rounding);
      // Only rounding up can increase a result to the smallest normal number.
      const bool up = rounding == Rounding::kUp || rounding == Rounding::kDown;
      return flush && up ? FlushWhere(e, IsTinyQuotient(e, one, v, rounding), result) : result;
    });
  });
}

void EmitSqrt(FunctionEmitter& e) {
  e.Consume("approx");
  const Rounding rounding = e.ConsumeRounding(Rounding::kNearest);
  EmitUnary(e, [&](Value* value) -> Value* {
    if (rounding != Rounding::kNearest) return CallRounded(e, "sqrt", {value}, rounding);
    return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, value);
  });
}

void EmitRsqrt(FunctionEmitter& e) {
  if (!e.Consume("approx")) e.Refuse("only the .approx form exists");
  // rsqrt() of the math library becomes f64 without .ftz. GPUs emulate this form in full precision.
  const bool approximate = e.instruction().Has("ftz");
  EmitUnary(e, [&](Value* value) {
    return ByUpperHalves(e, approximate, value, [&](Value* v) {
      return e.b.CreateFDiv(FloatConstant(v->getType(), 1),
                            e.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, v));
    });
  });
}

// copysign d, a, b: the magnitude of b with the sign of a.
void EmitCopysign(FunctionEmitter& e) {
  auto* const sign = e.Read(1, e.type());
  auto* const magnitude = e.Read(2, e.type());
  if (e.failed()) return;
  e.Write(e.b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign), e.type());
}

// testp.{finite,infinite,number,notanumber,normal,subnormal}
void EmitTestp(FunctionEmitter& e) {
  auto* const value = e.Read(1, e.type());
  if (e.failed()) return;
  auto* const type = value->getType();
  auto* const magnitude = FloatAbs(e, value);
  auto* const infinity = llvm::ConstantFP::getInfinity(type);
  auto* const normal = FloatConstant(type, SmallestNormal(type));
  Value* result = nullptr;
  if (e.Consume("finite")) {
    result = e.b.CreateFCmpOLT(magnitude, infinity);
  } else if (e.Consume("infinite")) {
    result = e.b.CreateFCmpOEQ(magnitude, infinity);
  } else if (e.Consume("number")) {
    result = e.b.CreateFCmpORD(value, value);
  } else if (e.Consume("notanumber")) {
    result = e.b.CreateFCmpUNO(value, value);
  } else if (e.Consume("normal")) {
    // PTX counts zeros as normal.
    result =
        e.b.CreateAnd(e.b.CreateFCmpOGE(magnitude, normal), e.b.CreateFCmpOLT(magnitude, infinity));
    result = e.b.CreateOr(result, e.b.CreateFCmpOEQ(magnitude, FloatConstant(type, 0)));
  } else if (e.Consume("subnormal")) {
    result = e.b.CreateAnd(e.b.CreateFCmpOLT(magnitude, normal),
                           e.b.CreateFCmpOGT(magnitude, FloatConstant(type, 0)));
  } else {
    e.Reject("it names no class of numbers");
    return;
  }
  e.Write(result, Type::kPred);
}

constexpr Opcode kFloatOpcodes[] = {
    {"sin", 2, 2, kSingle, EmitSin},
    {"cos", 2, 2, kSingle, EmitCos},
    {"ex2", 2, 2, kSingle | kHalves | kPacked, EmitEx2},
    {"lg2", 2, 2, kSingle, EmitLg2},
    {"tanh", 2, 2, kSingle | kHalves | kPacked, EmitTanh},
    {"rcp", 2, 2, kFloats, EmitRcp},
    {"sqrt", 2, 2, kFloats, EmitSqrt},
    {"rsqrt", 2, 2, kFloats, EmitRsqrt},
    {"copysign", 3, 3, kFloats, EmitCopysign},
    {"testp", 2, 2, kFloats, EmitTestp},
};

}  // namespace

std::span<const Opcode> FloatOpcodes() { return kFloatOpcodes; }

}  // namespace cuspan::softgpu::emit
