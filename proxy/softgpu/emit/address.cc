// State spaces and addresses.
#include <cstddef>

#include "proxy/ptx/declarations.h"
#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using ptx::kNoIndex;
using ptx::Operand;
using ptx::Space;

}  // namespace

Space FunctionEmitter::ConsumeSpace() {
  static constexpr struct {
    std::string_view name;
    Space space;
  } kSpaces[] = {
      {"global", Space::kGlobal},      {"shared", Space::kShared},
      {"shared::cta", Space::kShared}, {"shared::cluster", Space::kShared},
      {"local", Space::kLocal},        {"const", Space::kConst},
      {"param", Space::kParam},        {"param::entry", Space::kParam},
      {"param::func", Space::kParam},
  };
  for (const auto& space : kSpaces)
    if (Consume(space.name)) return space.space;
  return Space::kGeneric;
}

llvm::Value* FunctionEmitter::SharedBase() {
  if (shared_base_ == nullptr) {
    const auto point = b.saveIP();
    b.SetInsertPoint(entry_);
    auto* const base =
        llvm::cast<llvm::LoadInst>(ContextField(offsetof(ThreadContext, shared), Pointer()));
    base->setMetadata(
        llvm::LLVMContext::MD_align,
        llvm::MDNode::get(context(), llvm::ConstantAsMetadata::get(b.getInt64(kSharedAlignment))));
    shared_base_ = base;
    b.restoreIP(point);
  }
  return shared_base_;
}

llvm::AllocaInst* FunctionEmitter::Frame(llvm::Type* type, unsigned alignment) {
  llvm::IRBuilder<> at_entry(entry_, entry_->begin());
  auto* const slot = at_entry.CreateAlloca(type);
  slot->setAlignment(llvm::Align(alignment));
  return slot;
}

llvm::AllocaInst* FunctionEmitter::FrameBytes(std::uint64_t bytes, unsigned alignment) {
  return Frame(llvm::ArrayType::get(b.getInt8Ty(), bytes), alignment);
}

std::uint64_t FunctionEmitter::ParameterOffset(std::uint32_t variable) const {
  std::uint64_t offset = 0;
  const auto& parameters = function().signature.parameters;
  for (std::uint32_t i = 0; i <= variable && i < parameters.size(); ++i) {
    offset = ptx::AlignUp(offset, parameters[i].alignment);
    if (i < variable) offset += parameters[i].bytes;
  }
  return offset;
}

llvm::Value* FunctionEmitter::FrameAddress(std::uint32_t index) {
  if (variables_[index] != nullptr) return variables_[index];
  const auto& variable = body().variables[index];
  const auto point = b.saveIP();
  b.SetInsertPoint(entry_);
  if (function().entry && index < body().formal_registers.size()) {
    auto* const parameters = ContextField(offsetof(ThreadContext, params), Pointer());
    variables_[index] = b.CreateConstGEP1_64(b.getInt8Ty(), parameters, ParameterOffset(index));
  } else {
    // Vector accesses up to 16 bytes are legal at any multiple of their size.
    const std::uint64_t bytes =
        warp_ == nullptr ? variable.bytes : 32 * analysis::LaneBytes(variable);
    variables_[index] = FrameBytes(bytes, std::max(variable.alignment, 16U));
  }
  b.restoreIP(point);
  return variables_[index];
}

Space FunctionEmitter::SpaceOf(const Operand& operand) {
  if (operand.kind == Operand::Kind::kVariable) return body().variables[operand.index].space;
  if (const auto* const variable = module_.ptx().FindVariable(operand.name)) return variable->space;
  const auto* const target = module_.ptx().FindFunction(operand.name);
  if (target == nullptr) Reject(Format("'{}' is not declared", operand.name));
  return Space::kGeneric;
}

std::uint64_t FunctionEmitter::SharedOffset(const Operand& operand) {
  std::pair<std::uint32_t, std::uint32_t> key{planned_.index, operand.index};
  if (operand.kind == Operand::Kind::kSymbol)
    key = {kNoIndex, module_.ptx().variable_index.find(operand.name)->second};
  const auto found = module_.plan().shared_offsets.find(key);
  if (found == module_.plan().shared_offsets.end()) {
    Reject(Format("shared variable '{}' has no address", operand.name));
    return 0;
  }
  return found->second;
}

llvm::Value* FunctionEmitter::VariableValue(const Operand& operand, unsigned bits) {
  const Space space = SpaceOf(operand);
  if (failed()) return ConstInt(bits, 0);
  if (space == Space::kShared)
    return ConstInt(bits, SharedOffset(operand) + static_cast<std::uint64_t>(operand.offset));
  if (warp_ != nullptr && operand.kind == Operand::Kind::kVariable &&
      IsOwnVariable(operand.index) && bits == 64)
    return OwnVariableValue(operand);
  if (bits != 64) {
    Reject(Format("the address of '{}' does not fit {} bits", operand.name, bits));
    return ConstInt(bits, 0);
  }
  llvm::Value* base = nullptr;
  if (operand.kind == Operand::Kind::kVariable) {
    base = FrameAddress(operand.index);
  } else if (module_.ptx().FindVariable(operand.name) != nullptr) {
    base = module_.VariableAddress(operand.name);
  } else {
    base = module_.FunctionAddress(operand.name);
  }
  return b.CreateAdd(Same(b.CreatePtrToInt(base, b.getInt64Ty())),
                     ConstInt(64, static_cast<std::uint64_t>(operand.offset)));
}

llvm::Value* FunctionEmitter::UncheckedAddress(const Operand& operand, Space space,
                                               std::uint64_t bytes) {
  auto* const nowhere = llvm::ConstantPointerNull::get(Pointer());
  if (operand.kind != Operand::Kind::kAddress) {
    Reject("an address in brackets is expected");
    return nowhere;
  }
  if (operand.elements.size() != 1) {
    Refuse("an address of several parts is not implemented");
    return nowhere;
  }
  const Operand& base = operand.elements[0];
  auto* const byte = b.getInt8Ty();
  const auto offset = static_cast<std::uint64_t>(operand.offset);
  if (base.kind == Operand::Kind::kVariable || base.kind == Operand::Kind::kSymbol) {
    const Space home = SpaceOf(base);
    if (failed()) return nowhere;
    if (home == Space::kShared)
      return b.CreateConstGEP1_64(byte, SharedBase(), SharedOffset(base) + offset);
    if (base.kind == Operand::Kind::kSymbol) {
      if (module_.ptx().FindVariable(base.name) == nullptr) Reject("a function is not data");
      return b.CreateConstGEP1_64(byte, module_.VariableAddress(base.name), offset);
    }
    const auto& variable = body().variables[base.index];
    if (variable.space == Space::kRegister) {
      Reject(Format("'{}' is a register, not memory", base.name));
      return nowhere;
    }
    if (offset > variable.bytes || bytes > variable.bytes - offset) {
      Reject(Format("{} bytes at offset {} of '{}' lie outside its {} bytes", bytes, operand.offset,
                    base.name, variable.bytes));
      return nowhere;
    }
    auto* address = FrameAddress(base.index);
    if (warp_ != nullptr && IsOwnVariable(base.index)) {
      auto* const lanes = b.CreateZExt(lane_, b.getInt64Ty());
      address =
          b.CreateGEP(byte, address, b.CreateMul(lanes, b.getInt64(analysis::LaneBytes(variable))));
    }
    return b.CreateConstGEP1_64(byte, address, offset);
  }
  if (base.kind == Operand::Kind::kInteger) {
    auto* const value = ConstInt(64, base.bits + offset);
    return space == Space::kShared ? b.CreateGEP(byte, SharedBase(), value)
                                   : b.CreateIntToPtr(value, Pointer());
  }
  if (base.kind != Operand::Kind::kRegister) {
    Reject("the base of an address is neither a register nor a variable");
    return nowhere;
  }
  if (space == Space::kShared) {
    // Shared addresses have 32 bits, independent of the register's width, and the sum wraps around.
    auto* const sum = b.CreateAdd(Read(base, ptx::Type::kU32), ConstInt(32, offset & 0xffffffff));
    return b.CreateGEP(byte, SharedBase(),
                       signed_offsets_ ? b.CreateSExt(sum, Int(64)) : b.CreateZExt(sum, Int(64)));
  }
  if (OperandBits(base) != 64) {
    Reject(
        Format("register '{}' has {} bits; this address needs 64", base.name, OperandBits(base)));
    return nowhere;
  }
  return b.CreateConstGEP1_64(byte, b.CreateIntToPtr(Read(base, ptx::Type::kU64), Pointer()),
                              offset);
}

}  // namespace cuspan::softgpu::emit
