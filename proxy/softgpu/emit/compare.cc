// Comparison and selection. (PTX ISA, "Comparison and Selection Instructions")
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {

using llvm::Value;
using ptx::Type;

Comparison ConsumeComparison(FunctionEmitter& e) {
  using Kind = Comparison::Kind;
  static constexpr struct {
    std::string_view name;
    Comparison comparison;
  } kNames[] = {
      {"eq", {Kind::kEq, false, false}},   {"ne", {Kind::kNe, false, false}},
      {"lt", {Kind::kLt, false, false}},   {"le", {Kind::kLe, false, false}},
      {"gt", {Kind::kGt, false, false}},   {"ge", {Kind::kGe, false, false}},
      {"lo", {Kind::kLt, false, true}},    {"ls", {Kind::kLe, false, true}},
      {"hi", {Kind::kGt, false, true}},    {"hs", {Kind::kGe, false, true}},
      {"equ", {Kind::kEq, true, false}},   {"neu", {Kind::kNe, true, false}},
      {"ltu", {Kind::kLt, true, false}},   {"leu", {Kind::kLe, true, false}},
      {"gtu", {Kind::kGt, true, false}},   {"geu", {Kind::kGe, true, false}},
      {"num", {Kind::kNum, false, false}}, {"nan", {Kind::kNan, false, false}},
  };
  for (const auto& known : kNames)
    if (e.Consume(known.name)) return known.comparison;
  e.Reject("it names no comparison");
  return {};
}

Value* Compare(FunctionEmitter& e, const Comparison& comparison, Value* x, Value* y, Type type) {
  using Kind = Comparison::Kind;
  using llvm::CmpInst;
  if (ptx::IsFloat(type)) {
    x = Widen(e, x, type);
    y = Widen(e, y, type);
    const bool u = comparison.unordered;
    CmpInst::Predicate predicate = CmpInst::FCMP_FALSE;
    switch (comparison.kind) {
      case Kind::kEq:
        predicate = u ? CmpInst::FCMP_UEQ : CmpInst::FCMP_OEQ;
        break;
      case Kind::kNe:
        predicate = u ? CmpInst::FCMP_UNE : CmpInst::FCMP_ONE;
        break;
      case Kind::kLt:
        predicate = u ? CmpInst::FCMP_ULT : CmpInst::FCMP_OLT;
        break;
      case Kind::kLe:
        predicate = u ? CmpInst::FCMP_ULE : CmpInst::FCMP_OLE;
        break;
      case Kind::kGt:
        predicate = u ? CmpInst::FCMP_UGT : CmpInst::FCMP_OGT;
        break;
      case Kind::kGe:
        predicate = u ? CmpInst::FCMP_UGE : CmpInst::FCMP_OGE;
        break;
      case Kind::kNum:
        predicate = CmpInst::FCMP_ORD;
        break;
      case Kind::kNan:
        predicate = CmpInst::FCMP_UNO;
        break;
      case Kind::kNone:
        break;
    }
    return e.b.CreateFCmp(predicate, x, y);
  }
  const bool is_signed = ptx::IsSigned(type) && !comparison.force_unsigned;
  switch (comparison.unordered ? Kind::kNone : comparison.kind) {
    case Kind::kEq:
      return e.b.CreateICmpEQ(x, y);
    case Kind::kNe:
      return e.b.CreateICmpNE(x, y);
    case Kind::kLt:
      return is_signed ? e.b.CreateICmpSLT(x, y) : e.b.CreateICmpULT(x, y);
    case Kind::kLe:
      return is_signed ? e.b.CreateICmpSLE(x, y) : e.b.CreateICmpULE(x, y);
    case Kind::kGt:
      return is_signed ? e.b.CreateICmpSGT(x, y) : e.b.CreateICmpUGT(x, y);
    case Kind::kGe:
      return is_signed ? e.b.CreateICmpSGE(x, y) : e.b.CreateICmpUGE(x, y);
    default:
      e.Reject("this comparison is for floating point only");
      return e.b.CreateICmpEQ(x, y);
  }
}

namespace {

// Compares operands 1 and 2 as `type`, with .ftz.
Value* CompareOperands(FunctionEmitter& e, const Comparison& comparison, Type type) {
  Value* x = e.Read(1, type);
  Value* y = e.Read(2, type);
  if (e.failed()) return e.b.getFalse();
  if (e.Consume("ftz") && x->getType()->isFPOrFPVectorTy()) {
    x = FlushSubnormal(e, x);
    y = FlushSubnormal(e, y);
  }
  return Compare(e, comparison, x, y, type);
}

// Combines a value with operand 3 by .and, .or or .xor; returns it unchanged without one.
class BooleanOperation {
 public:
  explicit BooleanOperation(FunctionEmitter& e)
      : e_(e), is_and_(e.Consume("and")), is_or_(e.Consume("or")), is_xor_(e.Consume("xor")) {
    const bool wanted = is_and_ || is_or_ || is_xor_;
    if (wanted != (e.operand_count() == 4))
      e.Reject("a boolean operation and a fourth operand need each other");
    if (wanted && !e.failed()) other_ = e.Read(3, Type::kPred);
  }
  Value* Apply(Value* value) const {
    if (other_ == nullptr) return value;
    if (is_and_) return e_.b.CreateAnd(value, other_);
    return is_or_ ? e_.b.CreateOr(value, other_) : e_.b.CreateXor(value, other_);
  }

 private:
  FunctionEmitter& e_;
  const bool is_and_;
  const bool is_or_;
  const bool is_xor_;
  Value* other_ = nullptr;
};

// Compares both halves of packed operands; returns their predicates.
std::pair<Value*, Value*> CompareHalves(FunctionEmitter& e, const Comparison& comparison,
                                        Type packed) {
  const Type element = packed == Type::kF16x2 ? Type::kF16 : Type::kBf16;
  const bool flush = e.Consume("ftz");
  auto* const x = e.Read(1, packed);
  auto* const y = e.Read(2, packed);
  Value* results[2] = {};
  for (unsigned half = 0; half < 2; ++half) {
    const auto part = [&](Value* v) -> Value* {
      auto* const bits = e.b.CreateTrunc(e.b.CreateLShr(v, e.ConstInt(32, 16 * half)), e.Int(16));
      Value* value = e.b.CreateBitCast(bits, e.TypeOf(element));
      return flush && element == Type::kF16 ? FlushSubnormal(e, value) : value;
    };
    results[half] = Compare(e, comparison, part(x), part(y), element);
  }
  return {results[0], results[1]};
}

// setp.cmp{.bool}.type p{|q}, a, b{, {!}c}
void EmitSetp(FunctionEmitter& e) {
  const Comparison comparison = ConsumeComparison(e);
  const BooleanOperation combine(e);
  const auto& destination = e.operand(0);
  const bool pair = destination.kind == ptx::Operand::Kind::kPair;
  if (e.failed()) return;
  if (ptx::IsPacked(e.type())) {
    if (!pair) {
      e.Reject("two destinations p|q are expected");
      return;
    }
    const auto [low, high] = CompareHalves(e, comparison, e.type());
    e.Write(destination.elements[0], combine.Apply(low), Type::kPred);
    e.Write(destination.elements[1], combine.Apply(high), Type::kPred);
    return;
  }
  auto* const result = CompareOperands(e, comparison, e.type());
  if (!pair) {
    e.Write(combine.Apply(result), Type::kPred);
    return;
  }
  // Both values are computed first: a destination may be operand c.
  auto* const p = combine.Apply(result);
  auto* const q = combine.Apply(e.b.CreateNot(result));
  e.Write(destination.elements[0], p, Type::kPred);
  e.Write(destination.elements[1], q, Type::kPred);
}

// Value of set for true: all ones in an integer, 1.0 in a float.
Value* TrueValue(FunctionEmitter& e, Type type) {
  if (type == Type::kBf16) return e.ConstInt(16, 0x3f80);
  if (ptx::IsFloat(type)) return llvm::ConstantFP::get(e.TypeOf(type), 1.0);
  return llvm::Constant::getAllOnesValue(e.TypeOf(type));
}

// set.cmp{.bool}.dtype.stype d, a, b{, {!}c}
void EmitSet(FunctionEmitter& e) {
  const Comparison comparison = ConsumeComparison(e);
  const BooleanOperation combine(e);
  const Type to = e.type(0);
  const Type from = e.type(1);
  const std::uint16_t comparable = kIntegers | kFloats | kHalves | kPacked;
  if ((TypeSetOf(from) & comparable) == 0) e.Refuse("the type it compares is not implemented");
  if (e.failed()) return;
  if (ptx::IsPacked(from)) {
    const auto [low, high] = CompareHalves(e, comparison, from);
    const Type element = to == Type::kF16x2    ? Type::kF16
                         : to == Type::kBf16x2 ? Type::kBf16
                                               : Type::kU16;
    if (ptx::BitsOf(to) != 32) {
      e.Reject("the result must have 32 bits");
      return;
    }
    const auto half = [&](Value* condition) -> Value* {
      auto* const value = e.b.CreateSelect(combine.Apply(condition), TrueValue(e, element),
                                           llvm::Constant::getNullValue(e.TypeOf(element)));
      return e.b.CreateZExt(e.b.CreateBitCast(value, e.Int(16)), e.Int(32));
    };
    e.Write(e.b.CreateOr(half(low), e.b.CreateShl(half(high), e.ConstInt(32, 16))), Type::kB32);
    return;
  }
  auto* const condition = combine.Apply(CompareOperands(e, comparison, from));
  if (e.failed()) return;
  e.Write(e.b.CreateSelect(condition, TrueValue(e, to), llvm::Constant::getNullValue(e.TypeOf(to))),
          to);
}

void EmitSelp(FunctionEmitter& e) {
  auto* const x = e.Read(1, e.type());
  auto* const y = e.Read(2, e.type());
  e.Write(e.b.CreateSelect(e.Read(3, Type::kPred), x, y), e.type());
}

// slct{.ftz}.dtype.{s32,f32} d, a, b, c: c >= 0 ? a : b; a NaN selects b.
void EmitSlct(FunctionEmitter& e) {
  auto* const x = e.Read(1, e.type(0));
  auto* const y = e.Read(2, e.type(0));
  const Type selector = e.type(1);
  if (selector != Type::kS32 && selector != Type::kF32)
    e.Reject("the selector is neither .s32 nor .f32");
  Value* c = e.Read(3, selector);
  if (e.failed()) return;
  if (e.Consume("ftz") && selector == Type::kF32) c = FlushSubnormal(e, c);
  auto* const zero = llvm::Constant::getNullValue(c->getType());
  auto* const condition =
      selector == Type::kF32 ? e.b.CreateFCmpOGE(c, zero) : e.b.CreateICmpSGE(c, zero);
  e.Write(e.b.CreateSelect(condition, x, y), e.type(0));
}

constexpr std::uint16_t kComparable = kIntegers | kHalves | kFloats | kPacked;
constexpr Opcode kCompareOpcodes[] = {
    {"setp", 3, 4, kComparable, EmitSetp},
    {"set", 3, 4, kIntegers | kHalves | kSingle | kPacked, EmitSet},
    {"selp", 4, 4, kIntegers | kFloats | kHalves | kPacked, EmitSelp},
    {"slct", 4, 4, kIntegers | kFloats, EmitSlct},
};

}  // namespace

std::span<const Opcode> CompareOpcodes() { return kCompareOpcodes; }

}  // namespace cuspan::softgpu::emit
