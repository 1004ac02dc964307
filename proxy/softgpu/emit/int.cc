// Integer and bit instructions. (PTX ISA, "Integer Arithmetic Instructions",
// "Extended-Precision …", "Logic and Shift Instructions")
#include <llvm/IR/Intrinsics.h>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {

using llvm::Value;
using ptx::Type;

Value* ShiftLeft(FunctionEmitter& e, Value* value, Value* amount32) {
  const unsigned bits = value->getType()->getScalarSizeInBits();
  auto* const inside = e.b.CreateICmpULT(amount32, e.ConstInt(32, bits));
  auto* const amount =
      e.b.CreateZExtOrTrunc(e.b.CreateAnd(amount32, e.ConstInt(32, bits - 1)), value->getType());
  return e.b.CreateSelect(inside, e.b.CreateShl(value, amount), e.ConstInt(bits, 0));
}

Value* ShiftRight(FunctionEmitter& e, Value* value, Value* amount32, bool is_signed) {
  const unsigned bits = value->getType()->getScalarSizeInBits();
  auto* const inside = e.b.CreateICmpULT(amount32, e.ConstInt(32, bits));
  if (is_signed) {
    auto* const clamped = e.b.CreateSelect(inside, amount32, e.ConstInt(32, bits - 1));
    return e.b.CreateAShr(value, e.b.CreateZExtOrTrunc(clamped, value->getType()));
  }
  auto* const amount =
      e.b.CreateZExtOrTrunc(e.b.CreateAnd(amount32, e.ConstInt(32, bits - 1)), value->getType());
  return e.b.CreateSelect(inside, e.b.CreateLShr(value, amount), e.ConstInt(bits, 0));
}

WideProduct MultiplyWide(FunctionEmitter& e, Value* x, Value* y, bool is_signed) {
  const unsigned bits = x->getType()->getScalarSizeInBits();
  auto* const wide = e.Int(2 * bits);
  const auto extend = [&](Value* v) {
    return is_signed ? e.b.CreateSExt(v, wide) : e.b.CreateZExt(v, wide);
  };
  auto* const product = e.b.CreateMul(extend(x), extend(y));
  return {e.b.CreateTrunc(product, e.Int(bits)),
          e.b.CreateTrunc(e.b.CreateLShr(product, e.ConstInt(2 * bits, bits)), e.Int(bits))};
}

Value* IntegerMinMax(FunctionEmitter& e, Value* x, Value* y, bool is_max, bool is_signed) {
  using llvm::Intrinsic::ID;
  const ID id = is_signed ? (is_max ? llvm::Intrinsic::smax : llvm::Intrinsic::smin)
                          : (is_max ? llvm::Intrinsic::umax : llvm::Intrinsic::umin);
  return e.b.CreateBinaryIntrinsic(id, x, y);
}

namespace {

void EmitAnd(FunctionEmitter& e) {
  e.Write(e.b.CreateAnd(e.Read(1, e.type()), e.Read(2, e.type())), e.type());
}
void EmitOr(FunctionEmitter& e) {
  e.Write(e.b.CreateOr(e.Read(1, e.type()), e.Read(2, e.type())), e.type());
}
void EmitXor(FunctionEmitter& e) {
  e.Write(e.b.CreateXor(e.Read(1, e.type()), e.Read(2, e.type())), e.type());
}
void EmitNot(FunctionEmitter& e) { e.Write(e.b.CreateNot(e.Read(1, e.type())), e.type()); }

void EmitCnot(FunctionEmitter& e) {
  auto* const zero = e.b.CreateIsNull(e.Read(1, e.type()));
  e.Write(e.b.CreateZExt(zero, e.TypeOf(e.type())), e.type());
}

void EmitShl(FunctionEmitter& e) {
  e.Write(ShiftLeft(e, e.Read(1, e.type()), e.Read(2, Type::kU32)), e.type());
}
void EmitShr(FunctionEmitter& e) {
  e.Write(ShiftRight(e, e.Read(1, e.type()), e.Read(2, Type::kU32), ptx::IsSigned(e.type())),
          e.type());
}

// shf.{l,r}.{clamp,wrap}.b32 d, a, b, c: the funnel b:a shifted by c.
void EmitShf(FunctionEmitter& e) {
  const bool left = e.Consume("l");
  if (!left && !e.Consume("r")) e.Reject("neither .l nor .r is given");
  Value* amount = e.Read(3, Type::kU32);
  if (e.Consume("clamp")) {
    amount = IntegerMinMax(e, amount, e.ConstInt(32, 32), false, false);
  } else if (e.Consume("wrap")) {
    amount = e.b.CreateAnd(amount, e.ConstInt(32, 31));
  } else {
    e.Reject("neither .clamp nor .wrap is given");
  }
  auto* const low = e.b.CreateZExt(e.Read(1, Type::kB32), e.Int(64));
  auto* const high = e.b.CreateZExt(e.Read(2, Type::kB32), e.Int(64));
  auto* const funnel = e.b.CreateOr(low, e.b.CreateShl(high, e.ConstInt(64, 32)));
  auto* const wide = e.b.CreateZExt(amount, e.Int(64));  // 0 … 32
  Value* const shifted = left ? e.b.CreateLShr(e.b.CreateShl(funnel, wide), e.ConstInt(64, 32))
                              : e.b.CreateLShr(funnel, wide);
  e.Write(e.b.CreateTrunc(shifted, e.Int(32)), Type::kB32);
}

void EmitPopc(FunctionEmitter& e) {
  auto* const count = e.b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, e.Read(1, e.type()));
  e.Write(e.b.CreateZExtOrTrunc(count, e.Int(32)), Type::kU32);
}

Value* CountLeadingZeros(FunctionEmitter& e, Value* value) {
  auto* const count = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, value, e.b.getFalse());
  return e.b.CreateZExtOrTrunc(count, e.Int(32));
}

void EmitClz(FunctionEmitter& e) { e.Write(CountLeadingZeros(e, e.Read(1, e.type())), Type::kU32); }

// Position of the highest bit different from the sign; 0xffffffff without one.
void EmitBfind(FunctionEmitter& e) {
  Value* value = e.Read(1, e.type());
  const unsigned bits = ptx::BitsOf(e.type());
  if (ptx::IsSigned(e.type()))
    value = e.b.CreateXor(value, e.b.CreateAShr(value, e.ConstInt(bits, bits - 1)));
  auto* const zeros = CountLeadingZeros(e, value);
  const bool shift_amount = e.Consume("shiftamt");
  auto* const found = shift_amount ? zeros : e.b.CreateSub(e.ConstInt(32, bits - 1), zeros);
  e.Write(e.b.CreateSelect(e.b.CreateIsNull(value), e.ConstInt(32, 0xffffffff), found), Type::kU32);
}

void EmitBrev(FunctionEmitter& e) {
  e.Write(e.b.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, e.Read(1, e.type())), e.type());
}

// Low eight bits of an operand, as 32 bits.
Value* ReadByte(FunctionEmitter& e, std::size_t i) {
  return e.b.CreateAnd(e.Read(i, Type::kU32), e.ConstInt(32, 0xff));
}

// Mask with `count` low bits set; `count` may exceed the width.
Value* LowMask(FunctionEmitter& e, unsigned bits, Value* count32) {
  return e.b.CreateNot(ShiftLeft(e, e.ConstInt(bits, ~std::uint64_t{0}), count32));
}

// bfe d, a, position, length
void EmitBfe(FunctionEmitter& e) {
  const Type type = e.type();
  const unsigned bits = ptx::BitsOf(type);
  auto* const value = e.Read(1, type);
  auto* const position = ReadByte(e, 2);
  auto* const length = ReadByte(e, 3);
  auto* const field =
      e.b.CreateAnd(ShiftRight(e, value, position, false), LowMask(e, bits, length));
  if (!ptx::IsSigned(type)) {
    e.Write(field, type);
    return;
  }
  // The sign is bit min(position + length - 1, width - 1) of the source; it fills the bits above
  // the field.
  auto* const last = e.b.CreateSub(e.b.CreateAdd(position, length), e.ConstInt(32, 1));
  auto* const sign_at = IntegerMinMax(e, last, e.ConstInt(32, bits - 1), false, false);
  auto* const sign = e.b.CreateTrunc(ShiftRight(e, value, sign_at, false), e.Int(1));
  auto* const available = e.b.CreateSub(
      e.ConstInt(32, bits), IntegerMinMax(e, position, e.ConstInt(32, bits), false, false));
  auto* const width = IntegerMinMax(e, length, available, false, false);
  auto* const filled = e.b.CreateOr(field, e.b.CreateNot(LowMask(e, bits, width)));
  auto* const result = e.b.CreateSelect(sign, filled, field);
  e.Write(e.b.CreateSelect(e.b.CreateIsNull(length), e.ConstInt(bits, 0), result), type);
}

// bfi f, a, b, position, length: inserts the low bits of a into b.
void EmitBfi(FunctionEmitter& e) {
  const Type type = e.type();
  auto* const position = ReadByte(e, 3);
  auto* const mask = ShiftLeft(e, LowMask(e, ptx::BitsOf(type), ReadByte(e, 4)), position);
  auto* const field = e.b.CreateAnd(ShiftLeft(e, e.Read(1, type), position), mask);
  e.Write(e.b.CreateOr(field, e.b.CreateAnd(e.Read(2, type), e.b.CreateNot(mask))), type);
}

// bmsk.{clamp,wrap}.b32 d, position, length: a mask of `length` bits from `position`.
void EmitBmsk(FunctionEmitter& e) {
  Value* position = e.Read(1, Type::kU32);
  Value* length = e.Read(2, Type::kU32);
  if (e.Consume("wrap")) {
    position = e.b.CreateAnd(position, e.ConstInt(32, 31));
    length = e.b.CreateAnd(length, e.ConstInt(32, 31));
  } else if (!e.Consume("clamp")) {
    e.Reject("neither .clamp nor .wrap is given");
  }
  e.Write(ShiftLeft(e, LowMask(e, 32, length), position), Type::kB32);
}

// szext.{clamp,wrap}.{u32,s32} d, a, n: the low n bits of a, extended.
void EmitSzext(FunctionEmitter& e) {
  Value* count = e.Read(2, Type::kU32);
  if (e.Consume("wrap")) {
    count = e.b.CreateAnd(count, e.ConstInt(32, 31));
  } else if (!e.Consume("clamp")) {
    e.Reject("neither .clamp nor .wrap is given");
  }
  count = IntegerMinMax(e, count, e.ConstInt(32, 32), false, false);
  auto* const rest = e.b.CreateSub(e.ConstInt(32, 32), count);
  auto* const raised = ShiftLeft(e, e.Read(1, e.type()), rest);
  auto* const lowered = ShiftRight(e, raised, rest, ptx::IsSigned(e.type()));
  e.Write(e.b.CreateSelect(e.b.CreateIsNull(count), e.ConstInt(32, 0), lowered), e.type());
}

// lop3{.or|.and}.b32 d{|p}, a, b, c, table{, q}
void EmitLop3(FunctionEmitter& e) {
  const bool with_or = e.Consume("or");
  const bool with_and = e.Consume("and");
  const auto& table = e.operand(4);
  if (table.kind != ptx::Operand::Kind::kInteger || table.bits > 255) {
    e.Reject("the look-up table is not a constant of 8 bits");
    return;
  }
  auto* const x = e.Read(1, Type::kB32);
  auto* const y = e.Read(2, Type::kB32);
  auto* const z = e.Read(3, Type::kB32);
  Value* result = e.ConstInt(32, 0);
  for (unsigned term = 0; term < 8; ++term) {
    if ((table.bits >> term & 1) == 0) continue;
    auto* const xs = (term & 4) != 0 ? x : e.b.CreateNot(x);
    auto* const ys = (term & 2) != 0 ? y : e.b.CreateNot(y);
    auto* const zs = (term & 1) != 0 ? z : e.b.CreateNot(z);
    result = e.b.CreateOr(result, e.b.CreateAnd(xs, e.b.CreateAnd(ys, zs)));
  }
  if (!with_or && !with_and) {
    e.Write(result, Type::kB32);
    return;
  }
  if (e.operand(0).kind != ptx::Operand::Kind::kPair || e.operand_count() != 6) {
    e.Reject("d|p, a, b, c, table, q are expected");
    return;
  }
  auto* const nonzero = e.b.CreateIsNotNull(result);
  auto* const q = e.Read(5, Type::kPred);
  e.Write(e.operand(0).elements[0], result, Type::kB32);
  e.Write(e.operand(0).elements[1], with_or ? e.b.CreateOr(nonzero, q) : e.b.CreateAnd(nonzero, q),
          Type::kPred);
}

// prmt.b32{.mode} d, a, b, c
void EmitPrmt(FunctionEmitter& e) {
  auto* const low = e.b.CreateZExt(e.Read(1, Type::kB32), e.Int(64));
  auto* const high = e.b.CreateZExt(e.Read(2, Type::kB32), e.Int(64));
  auto* const bytes = e.b.CreateOr(low, e.b.CreateShl(high, e.ConstInt(64, 32)));
  auto* const control = e.Read(3, Type::kB32);
  const bool forward = e.Consume("f4e");
  const bool backward = e.Consume("b4e");
  const bool replicate8 = e.Consume("rc8");
  const bool edge_low = e.Consume("ecl");
  const bool edge_right = e.Consume("ecr");
  const bool replicate16 = e.Consume("rc16");
  const bool has_mode = forward || backward || replicate8 || edge_low || edge_right || replicate16;
  auto* const mode_control = e.b.CreateAnd(control, e.ConstInt(32, 3));
  Value* result = e.ConstInt(32, 0);
  for (unsigned i = 0; i < 4; ++i) {
    Value* selector = nullptr;  // 0 … 7
    auto* const position = e.ConstInt(32, i);
    if (!has_mode) {
      selector = e.b.CreateAnd(e.b.CreateLShr(control, e.ConstInt(32, 4 * i)), e.ConstInt(32, 7));
    } else if (forward) {
      selector = e.b.CreateAdd(mode_control, position);
    } else if (backward) {
      selector = e.b.CreateAnd(e.b.CreateSub(mode_control, position), e.ConstInt(32, 7));
    } else if (replicate8) {
      selector = mode_control;
    } else if (edge_low) {
      selector = IntegerMinMax(e, mode_control, position, true, false);
    } else if (edge_right) {
      selector = IntegerMinMax(e, mode_control, position, false, false);
    } else {
      selector =
          e.b.CreateOr(e.b.CreateShl(e.b.CreateAnd(control, e.ConstInt(32, 1)), e.ConstInt(32, 1)),
                       e.ConstInt(32, i & 1));
    }
    auto* const shift = e.b.CreateZExt(e.b.CreateShl(selector, e.ConstInt(32, 3)), e.Int(64));
    Value* byte = e.b.CreateTrunc(e.b.CreateLShr(bytes, shift), e.Int(8));
    if (!has_mode) {
      // If the selector's top bit is set, copies of the sign replace the byte.
      auto* const copy =
          e.b.CreateTrunc(e.b.CreateLShr(control, e.ConstInt(32, 4 * i + 3)), e.Int(1));
      byte = e.b.CreateSelect(copy, e.b.CreateAShr(byte, e.ConstInt(8, 7)), byte);
    }
    result =
        e.b.CreateOr(result, e.b.CreateShl(e.b.CreateZExt(byte, e.Int(32)), e.ConstInt(32, 8 * i)));
  }
  e.Write(result, Type::kB32);
}

// fns.b32 d, mask, base, offset: the offset-th set bit, counted up or down from base.
void EmitFns(FunctionEmitter& e) {
  e.Write(
      e.CallRuntime("cuspan_math_find_nth_set", e.Int(32),
                    {e.Read(1, Type::kB32), e.Read(2, Type::kU32), e.Read(3, Type::kS32)}, true),
      Type::kB32);
}

// --- Carry chains: the sum or difference is computed with two additional bits.

void WriteSum(FunctionEmitter& e, Value* x, Value* y, bool uses_carry) {
  const unsigned bits = ptx::BitsOf(e.type());
  auto* const wide = e.Int(bits + 1);
  Value* sum = e.b.CreateAdd(e.b.CreateZExt(x, wide), e.b.CreateZExt(y, wide));
  if (uses_carry) sum = e.b.CreateAdd(sum, e.b.CreateZExt(e.Carry(), wide));
  if (e.Consume("cc"))
    e.SetCarry(e.b.CreateTrunc(e.b.CreateLShr(sum, e.ConstInt(bits + 1, bits)), e.Int(1)));
  e.Write(e.b.CreateTrunc(sum, e.Int(bits)), e.type());
}

void EmitAddc(FunctionEmitter& e) { WriteSum(e, e.Read(1, e.type()), e.Read(2, e.type()), true); }

void WriteDifference(FunctionEmitter& e, bool uses_borrow) {
  const unsigned bits = ptx::BitsOf(e.type());
  auto* const wide = e.Int(bits + 1);
  Value* difference = e.b.CreateSub(e.b.CreateZExt(e.Read(1, e.type()), wide),
                                    e.b.CreateZExt(e.Read(2, e.type()), wide));
  if (uses_borrow) difference = e.b.CreateSub(difference, e.b.CreateZExt(e.Carry(), wide));
  if (e.Consume("cc"))
    e.SetCarry(e.b.CreateTrunc(e.b.CreateLShr(difference, e.ConstInt(bits + 1, bits)), e.Int(1)));
  e.Write(e.b.CreateTrunc(difference, e.Int(bits)), e.type());
}

void EmitSubc(FunctionEmitter& e) { WriteDifference(e, true); }

// mad.{lo,hi}.cc and madc.{lo,hi}{.cc}
void WriteMadCarry(FunctionEmitter& e, bool uses_carry) {
  const auto product =
      MultiplyWide(e, e.Read(1, e.type()), e.Read(2, e.type()), ptx::IsSigned(e.type()));
  const bool high = e.Consume("hi");
  if (!high && !e.Consume("lo")) e.Reject("neither .lo nor .hi is given");
  WriteSum(e, high ? product.high : product.low, e.Read(3, e.type()), uses_carry);
}

void EmitMadc(FunctionEmitter& e) { WriteMadCarry(e, true); }

// --- Products of 24 bits

Value* Product24(FunctionEmitter& e) {
  const bool is_signed = ptx::IsSigned(e.type());
  const auto factor = [&](std::size_t i) -> Value* {
    auto* const raised =
        e.b.CreateShl(e.b.CreateZExt(e.Read(i, e.type()), e.Int(64)), e.ConstInt(64, 40));
    return is_signed ? e.b.CreateAShr(raised, e.ConstInt(64, 40))
                     : e.b.CreateLShr(raised, e.ConstInt(64, 40));
  };
  auto* const product = e.b.CreateMul(factor(1), factor(2));  // 48 bits
  const bool high = e.Consume("hi");
  if (!high && !e.Consume("lo")) e.Reject("neither .lo nor .hi is given");
  return e.b.CreateTrunc(high ? e.b.CreateLShr(product, e.ConstInt(64, 16)) : product, e.Int(32));
}

void EmitMul24(FunctionEmitter& e) { e.Write(Product24(e), e.type()); }
void EmitMad24(FunctionEmitter& e) {
  const bool saturate = e.Consume("sat");  // mad24.hi.sat.s32
  auto* const product = Product24(e);
  auto* const addend = e.Read(3, e.type());
  e.Write(saturate ? e.b.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, product, addend)
                   : e.b.CreateAdd(product, addend),
          e.type());
}

// sad d, a, b, c: c + |a - b|
void EmitSad(FunctionEmitter& e) {
  const bool is_signed = ptx::IsSigned(e.type());
  auto* const x = e.Read(1, e.type());
  auto* const y = e.Read(2, e.type());
  auto* const difference = e.b.CreateSub(IntegerMinMax(e, x, y, true, is_signed),
                                         IntegerMinMax(e, x, y, false, is_signed));
  e.Write(e.b.CreateAdd(difference, e.Read(3, e.type())), e.type());
}

constexpr Opcode kIntegerOpcodes[] = {
    {"and", 3, 3, kIntegers | kPredicates, EmitAnd},
    {"or", 3, 3, kIntegers | kPredicates, EmitOr},
    {"xor", 3, 3, kIntegers | kPredicates, EmitXor},
    {"not", 2, 2, kIntegers | kPredicates, EmitNot},
    {"cnot", 2, 2, kIntegers, EmitCnot},
    {"shl", 3, 3, kIntegers, EmitShl},
    {"shr", 3, 3, kIntegers, EmitShr},
    {"shf", 4, 4, kWords, EmitShf},
    {"popc", 2, 2, kIntegers, EmitPopc},
    {"clz", 2, 2, kIntegers, EmitClz},
    {"bfind", 2, 2, kIntegers, EmitBfind},
    {"brev", 2, 2, kIntegers, EmitBrev},
    {"bfe", 4, 4, kIntegers, EmitBfe},
    {"bfi", 5, 5, kIntegers, EmitBfi},
    {"bmsk", 3, 3, kWords, EmitBmsk},
    {"szext", 3, 3, kWords, EmitSzext},
    {"lop3", 5, 6, kWords, EmitLop3},
    {"prmt", 4, 4, kWords, EmitPrmt},
    {"fns", 4, 4, kWords, EmitFns},
    {"addc", 3, 3, kIntegers, EmitAddc},
    {"subc", 3, 3, kIntegers, EmitSubc},
    {"madc", 4, 4, kIntegers, EmitMadc},
    {"mul24", 3, 3, kWords, EmitMul24},
    {"mad24", 4, 4, kWords, EmitMad24},
    {"sad", 4, 4, kIntegers, EmitSad},
};

}  // namespace

void WriteAddWithCarryOut(FunctionEmitter& e) {
  WriteSum(e, e.Read(1, e.type()), e.Read(2, e.type()), false);
}
void WriteSubWithCarryOut(FunctionEmitter& e) { WriteDifference(e, false); }
void WriteMadWithCarryOut(FunctionEmitter& e) { WriteMadCarry(e, false); }

std::span<const Opcode> IntegerOpcodes() { return kIntegerOpcodes; }

}  // namespace cuspan::softgpu::emit
