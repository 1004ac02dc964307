// Scalar video instructions: arithmetic on bytes, half-words or words of registers, with more than
// 32 bits. (PTX ISA, "Scalar Video Instructions")
#include <string_view>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Type;

// Width holding all intermediate results: a product of words, or a word shifted by 32 bits.
constexpr unsigned kVideoBits = 128;

// Byte or half-word named by a selector.
struct Part {
  unsigned bits = 32;
  unsigned shift = 0;
};
Part PartOf(FunctionEmitter& e, std::string_view selector) {
  if (selector.empty()) return {};
  const auto index = static_cast<unsigned>(selector.back() - '0');
  const bool byte = selector[0] == 'b';
  if (selector.size() != 2 || (!byte && selector[0] != 'h') || index >= (byte ? 4U : 2U)) {
    e.Reject("a selector is one of .b0 to .b3, .h0 and .h1");
    return {};
  }
  return byte ? Part{8, 8 * index} : Part{16, 16 * index};
}

Operand WithoutSelector(const Operand& operand) {
  Operand whole = operand;
  whole.selector = {};
  return whole;
}

Value* ExtendVideo(FunctionEmitter& e, Value* value, bool is_signed) {
  auto* const wide = e.Int(kVideoBits);
  return is_signed ? e.b.CreateSExt(value, wide) : e.b.CreateZExt(value, wide);
}

// Operand `i` as a number of `type`.
Value* ReadPart(FunctionEmitter& e, std::size_t i, Type type) {
  const Part part = PartOf(e, e.operand(i).selector);
  auto* const word = e.Read(WithoutSelector(e.operand(i)), Type::kB32);
  auto* const field =
      e.b.CreateTrunc(e.b.CreateLShr(word, e.ConstInt(32, part.shift)), e.Int(part.bits));
  return ExtendVideo(e, field, ptx::IsSigned(type));
}

Value* ConstVideo(FunctionEmitter& e, std::int64_t value) {
  return llvm::ConstantInt::getSigned(e.Int(kVideoBits), value);
}

Value* SaturateVideo(FunctionEmitter& e, Value* value, unsigned bits, bool is_signed) {
  const std::int64_t low = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  value = IntegerMinMax(e, value, ConstVideo(e, high), false, true);
  return IntegerMinMax(e, value, ConstVideo(e, low), true, true);
}

// Saturates `value`, then combines it with c by a second operation, or inserts it into c.
void FinishVideo(FunctionEmitter& e, Value* value, bool is_signed) {
  const Part part = PartOf(e, e.operand(0).selector);
  if (e.Consume("sat")) value = SaturateVideo(e, value, part.bits, is_signed);
  const bool add = e.Consume("add"), min = e.Consume("min"), max = e.Consume("max");
  const bool second = add || min || max, merge = part.bits != 32;
  if ((second && merge) || e.operand_count() != (second || merge ? 4U : 3U))
    e.Reject("a third source goes with .add, .min, .max or a selector of the destination");
  if (e.failed()) return;
  Value* result = e.b.CreateTrunc(value, e.Int(32));
  if (second || merge) {
    auto* const c = e.Read(3, Type::kB32);
    if (add) result = e.b.CreateAdd(result, c);
    if (min || max) result = IntegerMinMax(e, result, c, max, is_signed);
    if (merge) {
      const std::uint64_t field = ((std::uint64_t{1} << part.bits) - 1) << part.shift;
      auto* const moved = e.b.CreateShl(result, e.ConstInt(32, part.shift));
      result = e.b.CreateOr(e.b.CreateAnd(c, e.ConstInt(32, ~field & 0xffffffff)),
                            e.b.CreateAnd(moved, e.ConstInt(32, field)));
    }
  }
  e.Write(WithoutSelector(e.operand(0)), result, Type::kB32);
}

bool HasTypes(FunctionEmitter& e, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (e.type(i) != Type::kU32 && e.type(i) != Type::kS32)
      e.Reject("types .u32 and .s32 are expected");
  return !e.failed();
}

enum class Scalar { kAdd, kSub, kDifference, kMin, kMax };

// vop.dtype.atype.btype{.sat}{.op2} d{.part}, a{.part}, b{.part}{, c}
template <Scalar operation>
void EmitScalarVideo(FunctionEmitter& e) {
  if (!HasTypes(e, 3)) return;
  auto* const x = ReadPart(e, 1, e.type(1));
  auto* const y = ReadPart(e, 2, e.type(2));
  if (e.failed()) return;
  Value* value = nullptr;
  switch (operation) {
    case Scalar::kAdd:
      value = e.b.CreateAdd(x, y);
      break;
    case Scalar::kSub:
      value = e.b.CreateSub(x, y);
      break;
    case Scalar::kDifference:
      value = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, e.b.CreateSub(x, y), e.b.getFalse());
      break;
    case Scalar::kMin:
    case Scalar::kMax:
      value = IntegerMinMax(e, x, y, operation == Scalar::kMax, true);
      break;
  }
  FinishVideo(e, value, ptx::IsSigned(e.type(0)));
}

// vshl and vshr.dtype.atype.u32{.sat}.{clamp,wrap}{.op2} d, a, b{, c}
template <bool left>
void EmitVideoShift(FunctionEmitter& e) {
  if (!HasTypes(e, 3)) return;
  const bool wrap = e.Consume("wrap");
  if (!wrap && !e.Consume("clamp")) e.Reject("neither .clamp nor .wrap is given");
  auto* const x = ReadPart(e, 1, e.type(1));
  Value* amount = ReadPart(e, 2, Type::kU32);
  if (e.failed()) return;
  amount = wrap ? e.b.CreateAnd(amount, ConstVideo(e, 31))
                : IntegerMinMax(e, amount, ConstVideo(e, 32), false, false);
  FinishVideo(e, left ? e.b.CreateShl(x, amount) : e.b.CreateAShr(x, amount),
              ptx::IsSigned(e.type(0)));
}

Value* CompareVideo(FunctionEmitter& e, Value* x, Value* y) {
  if (e.Consume("eq")) return e.b.CreateICmpEQ(x, y);
  if (e.Consume("ne")) return e.b.CreateICmpNE(x, y);
  if (e.Consume("lt")) return e.b.CreateICmpSLT(x, y);
  if (e.Consume("le")) return e.b.CreateICmpSLE(x, y);
  if (e.Consume("gt")) return e.b.CreateICmpSGT(x, y);
  if (!e.Consume("ge")) e.Reject("one of .eq, .ne, .lt, .le, .gt and .ge is expected");
  return e.b.CreateICmpSGE(x, y);
}

// vset.atype.btype.cmp{.op2} d{.part}, a{.part}, b{.part}{, c}
void EmitVset(FunctionEmitter& e) {
  if (!HasTypes(e, 2)) return;
  auto* const x = ReadPart(e, 1, e.type(0));
  auto* const y = ReadPart(e, 2, e.type(1));
  if (e.failed()) return;
  FinishVideo(e, ExtendVideo(e, CompareVideo(e, x, y), false), false);
}

// vset{2,4}.atype.btype.cmp{.add} d, a, b, c: 1 or 0 in each element, or the number of ones plus c.
template <unsigned lanes>
void EmitVectorVset(FunctionEmitter& e) {
  if (!HasTypes(e, 2)) return;
  const bool accumulate = e.Consume("add");
  auto* const a = e.Read(1, Type::kB32);
  auto* const b = e.Read(2, Type::kB32);
  Value* result = accumulate ? e.Read(3, Type::kB32) : e.ConstInt(32, 0);
  constexpr unsigned kBits = 32 / lanes;
  for (unsigned i = 0; i < lanes && !e.failed(); ++i) {
    const auto element = [&](Value* packed, Type type) {
      auto* const field =
          e.b.CreateTrunc(e.b.CreateLShr(packed, e.ConstInt(32, i * kBits)), e.Int(kBits));
      return ptx::IsSigned(type) ? e.b.CreateSExt(field, e.Int(32))
                                 : e.b.CreateZExt(field, e.Int(32));
    };
    auto* const is_set =
        e.b.CreateZExt(CompareVideo(e, element(a, e.type(0)), element(b, e.type(1))), e.Int(32));
    result = accumulate ? e.b.CreateAdd(result, is_set)
                        : e.b.CreateOr(result, e.b.CreateShl(is_set, e.ConstInt(32, i * kBits)));
  }
  e.Write(result, Type::kB32);
}

// vmad.dtype.atype.btype{.sat}{.shr7,.shr15} d, a{.part}, b{.part}, c; .po adds one.
void EmitVmad(FunctionEmitter& e) {
  if (!HasTypes(e, 3)) return;
  auto* const x = ReadPart(e, 1, e.type(1));
  auto* const y = ReadPart(e, 2, e.type(2));
  const bool is_signed = ptx::IsSigned(e.type(1)) || ptx::IsSigned(e.type(2));
  const bool plus_one = e.Consume("po");
  auto* const c = ExtendVideo(e, e.Read(3, Type::kB32), is_signed);
  if (e.failed()) return;
  Value* value = e.b.CreateAdd(e.b.CreateMul(x, y), c);
  if (plus_one) value = e.b.CreateAdd(value, ConstVideo(e, 1));
  unsigned shift = 0;
  if (e.Consume("shr7")) shift = 7;
  if (e.Consume("shr15")) shift = 15;
  value = e.b.CreateAShr(value, ConstVideo(e, shift));
  if (e.Consume("sat")) value = SaturateVideo(e, value, 32, is_signed);
  e.Write(e.b.CreateTrunc(value, e.Int(32)), Type::kB32);
}

constexpr Opcode kScalarVideoOpcodes[] = {
    {"vadd", 3, 4, kWords, EmitScalarVideo<Scalar::kAdd>},
    {"vsub", 3, 4, kWords, EmitScalarVideo<Scalar::kSub>},
    {"vabsdiff", 3, 4, kWords, EmitScalarVideo<Scalar::kDifference>},
    {"vmin", 3, 4, kWords, EmitScalarVideo<Scalar::kMin>},
    {"vmax", 3, 4, kWords, EmitScalarVideo<Scalar::kMax>},
    {"vshl", 3, 4, kWords, EmitVideoShift<true>},
    {"vshr", 3, 4, kWords, EmitVideoShift<false>},
    {"vmad", 4, 4, kWords, EmitVmad},
    {"vset", 3, 4, kWords, EmitVset},
    {"vset2", 4, 4, kWords, EmitVectorVset<2>},
    {"vset4", 4, 4, kWords, EmitVectorVset<4>},
};

}  // namespace

std::span<const Opcode> ScalarVideoOpcodes() { return kScalarVideoOpcodes; }

}  // namespace cuspan::softgpu::emit
