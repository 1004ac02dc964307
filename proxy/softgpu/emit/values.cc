// Operands as LLVM values: registers, constants and special registers.
#include <bit>
#include <cstddef>

#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using ptx::kNoIndex;
using ptx::Operand;
using ptx::SpecialRegister;
using ptx::Type;

// Number of uses of one register as a float and as an integer.
struct Votes {
  int as_float = 0;
  int as_integer = 0;
};

template <typename Visit>
void VisitRegisters(const Operand& operand, Visit visit) {
  if (operand.kind == Operand::Kind::kRegister) visit(operand.index);
  for (const auto& element : operand.elements) VisitRegisters(element, visit);
}

}  // namespace

llvm::Type* FunctionEmitter::Wide(llvm::Type* scalar) {
  return width_ == 1 ? scalar : llvm::FixedVectorType::get(scalar, width_);
}

llvm::Type* FunctionEmitter::Int(unsigned bits) {
  return Wide(llvm::Type::getIntNTy(context(), bits));
}

llvm::Type* FunctionEmitter::TypeOf(Type type) {
  switch (type) {
    case Type::kF16:
      return Half();
    case Type::kF32:
    case Type::kTf32:
      return Float();
    case Type::kF64:
      return Double();
    case Type::kNone:
      return Int(32);
    default:
      return Int(ptx::BitsOf(type));
  }
}

llvm::Value* FunctionEmitter::ConstInt(unsigned bits, std::uint64_t value) {
  return llvm::ConstantInt::get(Int(bits), value);
}

std::vector<llvm::Type*> FunctionEmitter::ChooseRegisterTypes() {
  std::vector<Votes> votes(body().registers.size());
  for (const auto& instruction : body().instructions) {
    const bool is_memory = instruction.opcode == "ld" || instruction.opcode == "st";
    std::size_t type_count = 0;
    while (type_count < 4 && instruction.types[type_count] != Type::kNone) ++type_count;
    if (type_count == 0) continue;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      const Operand& operand = instruction.operands[i];
      if (operand.kind == Operand::Kind::kAddress) continue;
      // The destination has the first type, the sources the last one.
      const Type type = i == 0 ? instruction.types[0] : instruction.types[type_count - 1];
      // Moves of untyped bits do not count.
      if (type == Type::kB32 || type == Type::kB64) {
        if (is_memory || instruction.opcode == "mov" || instruction.opcode == "selp") continue;
      }
      const bool is_float = type == Type::kF32 || type == Type::kF64;
      VisitRegisters(operand, [&](std::uint32_t index) {
        ++(is_float ? votes[index].as_float : votes[index].as_integer);
      });
    }
  }
  std::vector<llvm::Type*> types;
  for (std::size_t i = 0; i < votes.size(); ++i) {
    const Type declared = body().registers[i].type;
    const unsigned bits = ptx::BitsOf(declared);
    const bool is_float = bits >= 32 && bits <= 64 && votes[i].as_float > votes[i].as_integer;
    types.push_back(is_float ? (bits == 32 ? Float() : Double()) : Int(bits));
  }
  return types;
}

llvm::Value* FunctionEmitter::Coerce(llvm::Value* value, unsigned bits, bool is_signed) {
  return is_signed ? b.CreateSExtOrTrunc(value, Int(bits)) : b.CreateZExtOrTrunc(value, Int(bits));
}

unsigned FunctionEmitter::OperandBits(const Operand& operand) const {
  if (operand.kind == Operand::Kind::kRegister)
    return ptx::BitsOf(body().registers[operand.index].type);
  if (operand.kind == Operand::Kind::kSpecial) return ptx::BitsOf(operand.special);
  return 0;
}

bool FunctionEmitter::IsPredicate(const Operand& operand) const {
  return operand.kind == Operand::Kind::kRegister &&
         body().registers[operand.index].type == Type::kPred;
}

llvm::Value* FunctionEmitter::Read(const Operand& operand, Type type) {
  llvm::Value* value = nullptr;
  if (!operand.selector.empty()) {
    Refuse(Format("the selector '.{}' is not implemented", operand.selector));
    return llvm::Constant::getNullValue(TypeOf(type));
  }
  switch (operand.kind) {
    case Operand::Kind::kRegister:
      value = ReadRegister(operand, type);
      break;
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat32:
    case Operand::Kind::kFloat64:
      value = ReadImmediate(operand, type);
      break;
    case Operand::Kind::kSpecial:
      value =
          Coerce(warp_ == nullptr ? ReadSpecial(operand.special) : ReadWarpSpecial(operand.special),
                 ptx::BitsOf(type), false);
      break;
    case Operand::Kind::kVariable:
    case Operand::Kind::kSymbol:
      value = VariableValue(operand, ptx::BitsOf(type));
      break;
    default:
      Reject("an operand is of the wrong kind");
      return llvm::Constant::getNullValue(TypeOf(type));
  }
  if (operand.negated) {
    if (type != Type::kPred) Reject("'!' is only allowed before a predicate");
    value = b.CreateNot(value);
  }
  return value->getType() == TypeOf(type) ? value : b.CreateBitCast(value, TypeOf(type));
}

llvm::Value* FunctionEmitter::ReadRegister(const Operand& operand, Type type) {
  llvm::Value* value = LoadRegister(operand.index);
  if (value->getType() == TypeOf(type)) return value;
  const Type declared = body().registers[operand.index].type;
  const unsigned bits = ptx::BitsOf(declared);
  if ((declared == Type::kPred) != (type == Type::kPred) || bits < ptx::BitsOf(type)) {
    Reject(Format("register '{}' of type .{} cannot be read as .{}", operand.name,
                  ptx::TypeName(declared), ptx::TypeName(type)));
    return llvm::Constant::getNullValue(TypeOf(type));
  }
  if (!value->getType()->isIntOrIntVectorTy()) value = b.CreateBitCast(value, Int(bits));
  return b.CreateTrunc(value, Int(ptx::BitsOf(type)));
}

llvm::Value* FunctionEmitter::ReadImmediate(const Operand& operand, Type type) {
  const unsigned bits = ptx::BitsOf(type);
  if (operand.kind == Operand::Kind::kInteger) {
    if (ptx::IsFloat(type) && type != Type::kF16 && type != Type::kBf16) {
      Reject("an integer constant instead of a floating-point constant");
      return llvm::Constant::getNullValue(TypeOf(type));
    }
    return llvm::ConstantInt::get(Int(bits), llvm::APInt(64, operand.bits).sextOrTrunc(bits));
  }
  std::uint64_t pattern = operand.bits;
  const bool is_double = operand.kind == Operand::Kind::kFloat64;
  if (bits == 32 && is_double) {
    pattern = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(pattern)));
  } else if (bits == 64 && !is_double) {
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    if (type == Type::kF64) pattern = std::bit_cast<std::uint64_t>(static_cast<double>(single));
  } else if (bits != 32 && bits != 64) {
    Reject(Format("a floating-point constant cannot be a .{}", ptx::TypeName(type)));
    return llvm::Constant::getNullValue(TypeOf(type));
  }
  return ConstInt(bits, pattern);
}

llvm::Value* FunctionEmitter::ContextField(std::size_t offset, llvm::Type* type) {
  auto* const address = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), ContextPointer(), offset);
  auto* const load = b.CreateLoad(type, address);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
  return load;
}

llvm::Value* FunctionEmitter::ReadSpecial(SpecialRegister which) {
  using R = SpecialRegister;
  const auto triple = [&](std::size_t offset, R first) {
    const auto component = static_cast<std::size_t>(which) - static_cast<std::size_t>(first);
    return ContextField(offset + component * sizeof(std::uint32_t), Int(32));
  };
  const auto lane_bit = [&] {
    return b.CreateShl(ConstInt(32, 1), ContextField(offsetof(ThreadContext, lane), Int(32)));
  };
  const auto clock = [&] { return CallRuntime("cuspan_rt_clock", Int(64), {ContextPointer()}); };
  const auto high = [&](llvm::Value* value) {
    return b.CreateTrunc(b.CreateLShr(value, ConstInt(64, 32)), Int(32));
  };
  switch (which) {
    case R::kTidX:
    case R::kTidY:
    case R::kTidZ:
      return triple(offsetof(ThreadContext, tid), R::kTidX);
    case R::kNtidX:
    case R::kNtidY:
    case R::kNtidZ:
      return triple(offsetof(ThreadContext, ntid), R::kNtidX);
    case R::kCtaidX:
    case R::kCtaidY:
    case R::kCtaidZ:
      return triple(offsetof(ThreadContext, ctaid), R::kCtaidX);
    case R::kNctaidX:
    case R::kNctaidY:
    case R::kNctaidZ:
      return triple(offsetof(ThreadContext, nctaid), R::kNctaidX);
    // Every cluster is one block.
    case R::kClusteridX:
    case R::kClusteridY:
    case R::kClusteridZ:
      return triple(offsetof(ThreadContext, ctaid), R::kClusteridX);
    case R::kNclusteridX:
    case R::kNclusteridY:
    case R::kNclusteridZ:
      return triple(offsetof(ThreadContext, nctaid), R::kNclusteridX);
    case R::kClusterCtaid:
    case R::kClusterCtarank:
    case R::kIsExplicitCluster:
    case R::kZero:
    case R::kNone:
    case R::kSmid:  // Reports one multiprocessor.
      return ConstInt(32, 0);
    case R::kClusterNctaid:
    case R::kClusterNctarank:
    case R::kNsmid:
      return ConstInt(32, 1);
    case R::kLaneid:
      return ContextField(offsetof(ThreadContext, lane), Int(32));
    case R::kWarpid:
      return ContextField(offsetof(ThreadContext, warp), Int(32));
    case R::kNwarpid:
      return ConstInt(32, 32);
    case R::kGridid:
      return ContextField(offsetof(ThreadContext, grid_id), Int(64));
    case R::kLanemaskEq:
      return lane_bit();
    case R::kLanemaskLt:
      return b.CreateSub(lane_bit(), ConstInt(32, 1));
    case R::kLanemaskGe:
      return b.CreateNeg(lane_bit());
    case R::kLanemaskLe: {
      auto* const bit = lane_bit();
      return b.CreateOr(bit, b.CreateSub(bit, ConstInt(32, 1)));
    }
    case R::kLanemaskGt: {
      auto* const bit = lane_bit();
      return b.CreateNot(b.CreateOr(bit, b.CreateSub(bit, ConstInt(32, 1))));
    }
    case R::kClock:
    case R::kGlobaltimerLo:
      return b.CreateTrunc(clock(), Int(32));
    case R::kClockHi:
    case R::kGlobaltimerHi:
      return high(clock());
    case R::kClock64:
    case R::kGlobaltimer:
      return clock();
    case R::kDynamicSmemSize:
      return ContextField(offsetof(ThreadContext, dynamic_shared_bytes), Int(32));
    case R::kTotalSmemSize:
      return ContextField(offsetof(ThreadContext, shared_bytes), Int(32));
    case R::kReservedSmemBegin:
      return ConstInt(32, module_.plan().reserved_shared_offset);
    case R::kReservedSmemEnd:
      return ConstInt(32, module_.plan().reserved_shared_offset + analysis::kReservedSharedBytes);
    case R::kReservedSmemCap:
      return ConstInt(32, analysis::kReservedSharedBytes);
    case R::kEnvreg0:
    case R::kEnvreg1:
    case R::kEnvreg2:
    case R::kEnvreg3:
      return triple(offsetof(ThreadContext, envreg), R::kEnvreg0);
  }
  return ConstInt(32, 0);
}

void FunctionEmitter::Write(const Operand& operand, llvm::Value* value, Type type) {
  if (operand.kind == Operand::Kind::kNone) return;  // "_"
  if (operand.kind != Operand::Kind::kRegister || !operand.selector.empty()) {
    Reject("the destination is not a register");
    return;
  }
  const Type declared = body().registers[operand.index].type;
  const unsigned bits = ptx::BitsOf(declared);
  const unsigned value_bits = ptx::BitsOf(type);
  if ((declared == Type::kPred) != (type == Type::kPred) || bits < value_bits) {
    Reject(Format("a value of type .{} cannot be written to register '{}' of type .{}",
                  ptx::TypeName(type), operand.name, ptx::TypeName(declared)));
    return;
  }
  if (width_ > 1 && !value->getType()->isVectorTy()) value = Same(value);
  llvm::Type* const stored = Wide(registers_[operand.index]->getAllocatedType()->getScalarType());
  if (value->getType() != stored) {
    if (!value->getType()->isIntOrIntVectorTy()) value = b.CreateBitCast(value, Int(value_bits));
    value = Coerce(value, bits, ptx::IsSigned(type));
    if (value->getType() != stored) value = b.CreateBitCast(value, stored);
  }
  StoreRegister(operand.index, value);
}

llvm::Value* FunctionEmitter::Carry() {
  if (carry_ == nullptr) {
    carry_ = WithWidth(warp_ == nullptr ? 1 : 32, [&] { return Frame(Int(1), 4); });
    llvm::IRBuilder<> at_entry(entry_, std::next(carry_->getIterator()));
    at_entry.CreateStore(llvm::Constant::getNullValue(carry_->getAllocatedType()), carry_);
  }
  return b.CreateLoad(carry_->getAllocatedType(), carry_);
}

void FunctionEmitter::SetCarry(llvm::Value* carry) {
  auto* const before = Carry();
  b.CreateStore(guard_ == nullptr ? carry : b.CreateSelect(guard_, carry, before), carry_);
}

}  // namespace cuspan::softgpu::emit
