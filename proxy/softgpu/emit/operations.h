// Operations on values shared by several instruction families. `e` provides the builder; none of
// them reads operands or writes registers.
#pragma once

#include "proxy/softgpu/emit/function_emitter.h"

namespace cuspan::softgpu::emit {

// Size of a barrier object in memory. (PTX ISA, "mbarrier")
inline constexpr std::uint64_t kBarrierBytes = 8;

// --- Integers (int.cc)

// Logical or arithmetic shifts by any amount; amounts beyond the width give 0, or the sign.
llvm::Value* ShiftLeft(FunctionEmitter& e, llvm::Value* value, llvm::Value* amount32);
llvm::Value* ShiftRight(FunctionEmitter& e, llvm::Value* value, llvm::Value* amount32,
                        bool is_signed);
// Both halves of a product of two values of the same width.
struct WideProduct {
  llvm::Value* low;
  llvm::Value* high;
};
WideProduct MultiplyWide(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, bool is_signed);
// Smaller or larger of two integers.
llvm::Value* IntegerMinMax(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, bool is_max,
                           bool is_signed);

// Emission of the whole current instruction: add.cc, sub.cc and mad.{lo,hi}.cc.
void WriteAddWithCarryOut(FunctionEmitter& e);
void WriteSubWithCarryOut(FunctionEmitter& e);
void WriteMadWithCarryOut(FunctionEmitter& e);

// --- Floating point (float.cc). `type` is f16, bf16, f32 or f64.

// Conversion of bf16 (as i16) to f32, and back by rounding to nearest even; other types are
// unchanged.
llvm::Value* Widen(FunctionEmitter& e, llvm::Value* value, ptx::Type type);
llvm::Value* Narrow(FunctionEmitter& e, llvm::Value* value, ptx::Type type);
// Replaces subnormal numbers by zeros of their sign.
llvm::Value* FlushSubnormal(FunctionEmitter& e, llvm::Value* value);
// Replaces values with `tiny` set by zeros of their sign.
llvm::Value* FlushWhere(FunctionEmitter& e, llvm::Value* tiny, llvm::Value* value);
// True if .ftz flushes a result: below the smallest normal number when rounded with unlimited
// exponents, as in hardware. The plain result may be rounded up to that number. These compute twice
// the result, normal just below the limit. If doubling overflows, the plain result is exact. x · y,
// x / y, x · y + z.
llvm::Value* IsTinyProduct(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, Rounding rounding);
llvm::Value* IsTinyQuotient(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, Rounding rounding);
llvm::Value* IsTinySum(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, llvm::Value* z,
                       ptx::Type type, Rounding rounding);
// The same for an f64 converted to f32.
llvm::Value* IsTinyInF32(FunctionEmitter& e, llvm::Value* value, Rounding rounding);
// Clamps to [0, 1]; NaN becomes 0.
llvm::Value* Saturate(FunctionEmitter& e, llvm::Value* value);
// IEEE arithmetic in the given rounding.
enum class FloatOperation { kAdd, kSub, kMul, kDiv };
llvm::Value* FloatArithmetic(FunctionEmitter& e, FloatOperation operation, llvm::Value* x,
                             llvm::Value* y, Rounding rounding);
llvm::Value* FusedMultiplyAdd(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, llvm::Value* z,
                              ptx::Type type, Rounding rounding);
// min and max of PTX: -0 < +0; a NaN loses, unless `nan_wins`.
llvm::Value* FloatMinMax(FunctionEmitter& e, llvm::Value* x, llvm::Value* y, bool is_max,
                         bool nan_wins);
// Value with its sign bit cleared (abs) or toggled (neg).
llvm::Value* FloatAbs(FunctionEmitter& e, llvm::Value* value);
llvm::Value* FloatNeg(FunctionEmitter& e, llvm::Value* value);

// Converts f64 or f32 to a narrower float type, in the given rounding.
llvm::Value* NarrowFloat(FunctionEmitter& e, llvm::Value* value, ptx::Type from, ptx::Type to,
                         Rounding rounding);

// --- Comparison (compare.cc)

// Comparison read from a modifier of the instruction ("lt", "equ", "hs" …).
struct Comparison {
  enum class Kind { kNone, kEq, kNe, kLt, kLe, kGt, kGe, kNum, kNan } kind = Kind::kNone;
  bool unordered = false;       // equ, neu …: true for a NaN.
  bool force_unsigned = false;  // lo, ls, hi, hs
};
Comparison ConsumeComparison(FunctionEmitter& e);
llvm::Value* Compare(FunctionEmitter& e, const Comparison& comparison, llvm::Value* x,
                     llvm::Value* y, ptx::Type type);

// --- Packed pairs

// Applies `operation` to both halves of f16x2 or bf16x2 values, given as i32. Its second argument
// is the element type.
template <typename Operation>
llvm::Value* ForHalves(FunctionEmitter& e, ptx::Type packed, llvm::ArrayRef<llvm::Value*> inputs,
                       Operation operation) {
  const ptx::Type element = packed == ptx::Type::kF16x2 ? ptx::Type::kF16 : ptx::Type::kBf16;
  llvm::Value* result = e.ConstInt(32, 0);
  for (unsigned half = 0; half < 2; ++half) {
    llvm::SmallVector<llvm::Value*, 3> parts;
    for (auto* input : inputs) {
      auto* const bits =
          e.b.CreateTrunc(e.b.CreateLShr(input, e.ConstInt(32, 16 * half)), e.Int(16));
      parts.push_back(e.b.CreateBitCast(bits, e.TypeOf(element)));
    }
    auto* const bits = e.b.CreateBitCast(operation(parts, element), e.Int(16));
    result = e.b.CreateOr(
        result, e.b.CreateShl(e.b.CreateZExt(bits, e.Int(32)), e.ConstInt(32, 16 * half)));
  }
  return result;
}

}  // namespace cuspan::softgpu::emit
