// Instructions defined for both integers and floating point. (PTX ISA, "Integer …", "Floating-Point
// …" and "Half-Precision Floating-Point Arithmetic Instructions")
#include <llvm/IR/Intrinsics.h>

#include <functional>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Type;

bool IsFloating(Type type) { return ptx::IsFloat(type) || ptx::IsPacked(type); }

using TinyTest = std::function<Value*(llvm::ArrayRef<Value*>, Type)>;

// Applies a floating-point operation to operands 1 … `inputs` of the instruction: once, or to each
// half of a packed type, with .ftz and .sat. `tiny` selects results flushed by .ftz, if these are
// not the subnormal ones.
template <typename Operation>
void EmitFloat(FunctionEmitter& e, unsigned inputs, Operation operation,
               const TinyTest& tiny = {}) {
  const Type type = e.type();
  const bool flush = e.Consume("ftz");
  const bool saturate = e.Consume("sat");
  const bool relu = e.Consume("relu");
  const auto apply = [&](llvm::SmallVector<Value*, 3> values, Type element) {
    if (flush)
      for (auto*& value : values)
        if (value->getType()->isFPOrFPVectorTy()) value = FlushSubnormal(e, value);
    Value* result = operation(values, element);
    if (flush && result->getType()->isFPOrFPVectorTy())
      result = FlushSubnormal(e, tiny ? FlushWhere(e, tiny(values, element), result) : result);
    if (saturate || relu) {
      Value* wide = Widen(e, result, element);
      if (saturate) wide = Saturate(e, wide);
      // A NaN stays; negative values become +0.
      if (relu) wide = FloatMinMax(e, wide, llvm::ConstantFP::getZero(wide->getType()), true, true);
      result = Narrow(e, wide, element);
    }
    return result;
  };
  llvm::SmallVector<Value*, 3> values;
  for (unsigned i = 1; i <= inputs; ++i) values.push_back(e.Read(i, type));
  if (e.failed()) return;
  e.Write(ptx::IsPacked(type) ? ForHalves(e, type, values, apply) : apply(values, type), type);
}

// bf16 is computed in f32 and rounded. This is exact, because f32 has more than twice its digits.
void EmitFloatArithmetic(FunctionEmitter& e, FloatOperation operation) {
  const Rounding rounding = e.ConsumeRounding(Rounding::kNearest);
  if (rounding != Rounding::kNearest && BitsOf(e.type()) < 32)
    e.Refuse("this rounding is not implemented");
  TinyTest tiny;  // Subnormal sums are exact.
  if (operation == FloatOperation::kMul)
    tiny = [&](llvm::ArrayRef<Value*> v, Type) { return IsTinyProduct(e, v[0], v[1], rounding); };
  if (operation == FloatOperation::kDiv)
    tiny = [&](llvm::ArrayRef<Value*> v, Type) { return IsTinyQuotient(e, v[0], v[1], rounding); };
  EmitFloat(
      e, 2,
      [&](llvm::SmallVector<Value*, 3>& v, Type element) {
        return Narrow(e,
                      FloatArithmetic(e, operation, Widen(e, v[0], element),
                                      Widen(e, v[1], element), rounding),
                      element);
      },
      tiny);
}

// add.sat.s32 and sub.sat.s32
void WriteIntegerSum(FunctionEmitter& e, bool subtract) {
  auto* const x = e.Read(1, e.type());
  auto* const y = e.Read(2, e.type());
  if (e.Consume("sat")) {
    e.Write(e.b.CreateBinaryIntrinsic(
                subtract ? llvm::Intrinsic::ssub_sat : llvm::Intrinsic::sadd_sat, x, y),
            e.type());
    return;
  }
  e.Write(subtract ? e.b.CreateSub(x, y) : e.b.CreateAdd(x, y), e.type());
}

// Applies `operation` to both halves of .u16x2 or .s16x2 operands 1 and 2.
template <typename Operation>
void EmitPackedIntegers(FunctionEmitter& e, Operation operation) {
  auto* const x = e.Read(1, e.type());
  auto* const y = e.Read(2, e.type());
  Value* result = e.ConstInt(32, 0);
  for (unsigned half = 0; half < 2; ++half) {
    const auto part = [&](Value* v) {
      return e.b.CreateTrunc(e.b.CreateLShr(v, e.ConstInt(32, 16 * half)), e.Int(16));
    };
    auto* const bits = e.b.CreateZExt(operation(part(x), part(y)), e.Int(32));
    result = e.b.CreateOr(result, e.b.CreateShl(bits, e.ConstInt(32, 16 * half)));
  }
  e.Write(result, e.type());
}

void EmitAdd(FunctionEmitter& e) {
  if (ptx::IsPackedInteger(e.type())) {
    EmitPackedIntegers(e, [&](Value* x, Value* y) { return e.b.CreateAdd(x, y); });
  } else if (IsFloating(e.type())) {
    EmitFloatArithmetic(e, FloatOperation::kAdd);
  } else if (e.instruction().Has("cc")) {
    WriteAddWithCarryOut(e);
  } else {
    WriteIntegerSum(e, false);
  }
}

void EmitSub(FunctionEmitter& e) {
  if (IsFloating(e.type())) {
    EmitFloatArithmetic(e, FloatOperation::kSub);
  } else if (e.instruction().Has("cc")) {
    WriteSubWithCarryOut(e);
  } else {
    WriteIntegerSum(e, true);
  }
}

Type DoubleWidth(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kNone;
  }
}

// Product of operands 1 and 2 for .lo, .hi or .wide, and its type.
struct Product {
  Value* value;
  Type type;
};
Product IntegerProduct(FunctionEmitter& e) {
  const Type type = e.type();
  auto* const x = e.Read(1, type);
  auto* const y = e.Read(2, type);
  if (e.Consume("wide")) {
    const Type wide = DoubleWidth(type);
    if (wide == Type::kNone) {
      e.Reject("there is no .wide form of this type");
      return {x, type};
    }
    auto* const target = e.TypeOf(wide);
    const auto extend = [&](Value* v) {
      return ptx::IsSigned(type) ? e.b.CreateSExt(v, target) : e.b.CreateZExt(v, target);
    };
    return {e.b.CreateMul(extend(x), extend(y)), wide};
  }
  if (e.Consume("hi")) return {MultiplyWide(e, x, y, ptx::IsSigned(type)).high, type};
  if (!e.Consume("lo")) e.Reject("one of .lo, .hi and .wide is expected");
  return {e.b.CreateMul(x, y), type};
}

void EmitMul(FunctionEmitter& e) {
  if (IsFloating(e.type())) {
    EmitFloatArithmetic(e, FloatOperation::kMul);
    return;
  }
  const auto product = IntegerProduct(e);
  e.Write(product.value, product.type);
}

void EmitFma(FunctionEmitter& e) {
  const Rounding rounding = e.ConsumeRounding(Rounding::kNearest);
  if (rounding != Rounding::kNearest && BitsOf(e.type()) < 32)
    e.Refuse("this rounding is not implemented");
  EmitFloat(
      e, 3,
      [&](llvm::SmallVector<Value*, 3>& v, Type element) {
        return FusedMultiplyAdd(e, v[0], v[1], v[2], element, rounding);
      },
      [&](llvm::ArrayRef<Value*> v, Type element) {
        return IsTinySum(e, v[0], v[1], v[2], element, rounding);
      });
}

void EmitMad(FunctionEmitter& e) {
  if (IsFloating(e.type())) {
    EmitFma(e);
    return;
  }
  if (e.instruction().Has("cc")) {
    WriteMadWithCarryOut(e);
    return;
  }
  const bool saturate = e.Consume("sat");  // mad.hi.sat.s32
  const auto product = IntegerProduct(e);
  auto* const addend = e.Read(3, product.type);
  if (e.failed()) return;
  e.Write(saturate ? e.b.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, product.value, addend)
                   : e.b.CreateAdd(product.value, addend),
          product.type);
}

// Division by zero is unspecified in PTX, but ends the process on x86; so does the smallest integer
// divided by -1. GPUs return all ones for a quotient by zero, and the dividend for a remainder.
void EmitIntegerDivision(FunctionEmitter& e, bool remainder) {
  const Type type = e.type();
  const unsigned bits = ptx::BitsOf(type);
  auto* const x = e.Read(1, type);
  auto* const y = e.Read(2, type);
  auto* const one = e.ConstInt(bits, 1);
  auto* const by_zero = e.b.CreateIsNull(y);
  Value* unsafe = by_zero;
  if (ptx::IsSigned(type)) {
    auto* const smallest = e.ConstInt(bits, std::uint64_t{1} << (bits - 1));
    auto* const overflow = e.b.CreateAnd(e.b.CreateICmpEQ(x, smallest),
                                         e.b.CreateICmpEQ(y, e.ConstInt(bits, ~std::uint64_t{0})));
    unsafe = e.b.CreateOr(unsafe, overflow);
  }
  // The smallest integer divided by 1 equals the wrapped result of dividing it by -1.
  auto* const divisor = e.b.CreateSelect(unsafe, one, y);
  if (remainder) {
    auto* const rest =
        ptx::IsSigned(type) ? e.b.CreateSRem(x, divisor) : e.b.CreateURem(x, divisor);
    e.Write(e.b.CreateSelect(by_zero, x, rest), type);
    return;
  }
  auto* const quotient =
      ptx::IsSigned(type) ? e.b.CreateSDiv(x, divisor) : e.b.CreateUDiv(x, divisor);
  e.Write(e.b.CreateSelect(by_zero, e.ConstInt(bits, ~std::uint64_t{0}), quotient), type);
}

void EmitRem(FunctionEmitter& e) { EmitIntegerDivision(e, true); }

void EmitDiv(FunctionEmitter& e) {
  if (!IsFloating(e.type())) {
    EmitIntegerDivision(e, false);
    return;
  }
  // .approx and .full may be off by 2 ulp; here they are exact.
  e.Consume("approx");
  e.Consume("full");
  EmitFloatArithmetic(e, FloatOperation::kDiv);
}

void EmitAbs(FunctionEmitter& e) {
  if (IsFloating(e.type())) {
    EmitFloat(e, 1, [&](llvm::SmallVector<Value*, 3>& v, Type) { return FloatAbs(e, v[0]); });
    return;
  }
  e.Write(e.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, e.Read(1, e.type()), e.b.getFalse()),
          e.type());
}

void EmitNeg(FunctionEmitter& e) {
  if (IsFloating(e.type())) {
    EmitFloat(e, 1, [&](llvm::SmallVector<Value*, 3>& v, Type) { return FloatNeg(e, v[0]); });
    return;
  }
  e.Write(e.b.CreateNeg(e.Read(1, e.type())), e.type());
}

void EmitMinMax(FunctionEmitter& e, bool is_max) {
  if (ptx::IsPackedInteger(e.type())) {
    const bool relu = e.Consume("relu");
    EmitPackedIntegers(e, [&](Value* x, Value* y) {
      auto* const chosen = IntegerMinMax(e, x, y, is_max, e.type() == Type::kS16x2);
      return relu ? IntegerMinMax(e, chosen, e.ConstInt(16, 0), true, true) : chosen;
    });
    return;
  }
  if (!IsFloating(e.type())) {
    const bool relu = e.Consume("relu");
    auto* value =
        IntegerMinMax(e, e.Read(1, e.type()), e.Read(2, e.type()), is_max, ptx::IsSigned(e.type()));
    if (relu) value = IntegerMinMax(e, value, e.ConstInt(ptx::BitsOf(e.type()), 0), true, true);
    e.Write(value, e.type());
    return;
  }
  const bool nan_wins = e.Consume("NaN");
  const bool xor_sign = e.Consume("xorsign");
  if (xor_sign && !e.Consume("abs")) e.Reject(".xorsign needs .abs");
  EmitFloat(e, 2, [&](llvm::SmallVector<Value*, 3>& v, Type element) -> Value* {
    Value* x = Widen(e, v[0], element);
    Value* y = Widen(e, v[1], element);
    if (!xor_sign) return Narrow(e, FloatMinMax(e, x, y, is_max, nan_wins), element);
    auto* const magnitude = FloatMinMax(e, FloatAbs(e, x), FloatAbs(e, y), is_max, nan_wins);
    const unsigned bits = x->getType()->getScalarSizeInBits();
    auto* const signs =
        e.b.CreateXor(e.b.CreateBitCast(x, e.Int(bits)), e.b.CreateBitCast(y, e.Int(bits)));
    auto* const sign = e.b.CreateAnd(signs, e.ConstInt(bits, std::uint64_t{1} << (bits - 1)));
    auto* const result = e.b.CreateOr(e.b.CreateBitCast(magnitude, e.Int(bits)), sign);
    return Narrow(e, e.b.CreateBitCast(result, x->getType()), element);
  });
}

void EmitMin(FunctionEmitter& e) { EmitMinMax(e, false); }
void EmitMax(FunctionEmitter& e) { EmitMinMax(e, true); }

constexpr std::uint16_t kNumbers = kIntegers | kHalves | kFloats | kPacked;
constexpr Opcode kArithmeticOpcodes[] = {
    {"add", 3, 3, kNumbers | kPackedIntegers, EmitAdd},
    {"sub", 3, 3, kNumbers, EmitSub},
    {"mul", 3, 3, kNumbers, EmitMul},
    {"mad", 4, 4, kIntegers | kFloats, EmitMad},
    {"fma", 4, 4, kHalves | kFloats | kPacked, EmitFma},
    {"div", 3, 3, kIntegers | kFloats, EmitDiv},
    {"rem", 3, 3, kIntegers, EmitRem},
    {"abs", 2, 2, kNumbers, EmitAbs},
    {"neg", 2, 2, kNumbers, EmitNeg},
    {"min", 3, 3, kNumbers | kPackedIntegers, EmitMin},
    {"max", 3, 3, kNumbers | kPackedIntegers, EmitMax},
};

}  // namespace

std::span<const Opcode> ArithmeticOpcodes() { return kArithmeticOpcodes; }

}  // namespace cuspan::softgpu::emit
