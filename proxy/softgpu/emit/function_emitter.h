// Makes the LLVM function of one PTX function.
//
// This class holds what every instruction needs: reading and writing operands,
// addresses, the thread's context, errors. What each instruction means is in
// the files of the instruction families (int.cc, float.cc, mem.cc, …), which
// speak only in terms of this class: they never name the LLVM type of a value
// except through Int() and TypeOf(), so that a value may become a vector with
// one element per lane.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/emit/module_emitter.h"

namespace cuspan::softgpu::emit {

enum class Rounding : std::uint8_t { kNearest, kZero, kDown, kUp };

class FunctionEmitter {
 public:
  FunctionEmitter(ModuleEmitter& module, const analysis::PlannedFunction& planned,
                  llvm::Function* function);

  // Emits the whole function. Called once.
  Status Emit();

  // --- The instruction being emitted.

  const ptx::Instruction& instruction() const { return *instruction_; }
  std::size_t operand_count() const { return instruction_->operands.size(); }
  // Operand `i`; one of kind kNone when there is none.
  const ptx::Operand& operand(std::size_t i) const;
  // Its type `i`, or kNone.
  ptx::Type type(std::size_t i = 0) const {
    return i < 4 ? instruction_->types[i] : ptx::Type::kNone;
  }
  // Does it have this modifier? Modifiers never asked for are refused at the end.
  bool Take(std::string_view modifier);
  // The rounding modifier (.rn .rz .rm .rp), or `otherwise`.
  Rounding TakeRounding(Rounding otherwise);

  // Records that the instruction can not be emitted; the first failure counts.
  // Emission goes on with harmless values.
  void Refuse(std::string_view reason);   // kUnsupported
  void Reject(std::string_view problem);  // kInvalid
  bool failed() const { return !status_.ok(); }

  // --- Types and constants.

  llvm::Type* Int(unsigned bits);
  llvm::Type* Float() { return llvm::Type::getFloatTy(context()); }
  llvm::Type* Double() { return llvm::Type::getDoubleTy(context()); }
  llvm::Type* Half() { return llvm::Type::getHalfTy(context()); }
  llvm::PointerType* Pointer() { return llvm::PointerType::getUnqual(context()); }
  // The LLVM type that a value of `type` has: iN, half, float or double; i1 for a
  // predicate, and integers for the bits of bf16, f16x2 and bf16x2.
  llvm::Type* TypeOf(ptx::Type type);
  llvm::Value* ConstInt(unsigned bits, std::uint64_t value);
  llvm::LLVMContext& context() { return module_.context(); }
  ModuleEmitter& module() { return module_; }
  const ptx::Function& function() const { return module_.ptx().functions[planned_.index]; }

  // --- Operands.

  // The value of an operand, as TypeOf(type).
  llvm::Value* Read(const ptx::Operand& operand, ptx::Type type);
  llvm::Value* Read(std::size_t i, ptx::Type type) { return Read(operand(i), type); }
  // Stores TypeOf(type) in a register; a wider register gets it extended by the type's sign.
  void Write(const ptx::Operand& operand, llvm::Value* value, ptx::Type type);
  void Write(llvm::Value* value, ptx::Type type) { Write(operand(0), value, type); }
  // Width in bits of what a register, special register or address operand holds; 0 for others.
  unsigned OperandBits(const ptx::Operand& operand) const;
  bool IsPredicate(const ptx::Operand& operand) const;

  // --- Memory. Addresses are LLVM pointers.

  // Where the kAddress operand points, when it is an address of `space` and `bytes` are accessed
  // there.
  llvm::Value* Address(const ptx::Operand& operand, ptx::Space space, std::uint64_t bytes);
  // Address of a variable in its own state space, as an integer: what `mov` gives.
  llvm::Value* VariableValue(const ptx::Operand& operand, unsigned bits);
  // The state space named by a modifier; kGeneric without one.
  ptx::Space TakeSpace();
  llvm::Value* SharedBase();
  llvm::Value* ContextPointer() { return function_->getArg(0); }
  // A field of ThreadContext, which never changes while a thread runs.
  llvm::Value* ContextField(std::size_t offset, llvm::Type* type);
  // Memory in this function's frame.
  llvm::AllocaInst* Frame(llvm::Type* type, unsigned alignment);
  llvm::AllocaInst* FrameBytes(std::uint64_t bytes, unsigned alignment);
  // PTX's condition code CC.CF, an i1.
  llvm::Value* Carry();
  void SetCarry(llvm::Value* carry);

  // --- Calls and control flow.

  // A call of a function of rt/abi.h or jit/helpers.h; the arguments give its type.
  llvm::Value* CallRuntime(std::string_view name, llvm::Type* result,
                           llvm::ArrayRef<llvm::Value*> arguments, bool pure = false);
  // Ends the thread with a driver error; the block is left unterminated and dead.
  void Fault(std::uint32_t driver_error, std::string_view what);
  // The block that starts at the instruction with this index (one past the last is the return).
  llvm::BasicBlock* BlockAt(std::uint32_t position);
  const ptx::Body& body() const { return *planned_.body; }
  // "kernel 'k', PTX line 12", with the function's name if it is another.
  std::string Where() const;
  // Lets other threads run, every few times that this is passed, if the current
  // instruction is the backward branch of a spin loop.
  void YieldInSpinLoop();
  // Leaves the function.
  void Return();

  llvm::IRBuilder<> b;  // Every file of the families writes through it.

 private:
  void CreateFrame();
  void CreateBlocks();
  void ClearReservedShared();
  void EmitInstructions();
  void EmitOne(std::uint32_t index);
  void Dispatch();
  llvm::Value* Coerce(llvm::Value* value, unsigned bits, bool is_signed);
  llvm::Value* ReadRegister(const ptx::Operand& operand, ptx::Type type);
  llvm::Value* ReadImmediate(const ptx::Operand& operand, ptx::Type type);
  llvm::Value* ReadSpecial(ptx::SpecialRegister which);
  // A variable or symbol of the module: its space, or kGeneric for a function; rejects unknown
  // names.
  ptx::Space SpaceOf(const ptx::Operand& operand);
  // The offset of a shared variable from the block's shared memory.
  std::uint64_t SharedOffset(const ptx::Operand& operand);
  // The register's LLVM type: float or double where it mostly holds one.
  std::vector<llvm::Type*> ChooseRegisterTypes();
  // Offset in ThreadContext::params of a kernel's formal parameter.
  std::uint64_t ParameterOffset(std::uint32_t variable) const;
  // Pointer to a .local or .param variable of the body.
  llvm::Value* FrameAddress(std::uint32_t variable);

  ModuleEmitter& module_;
  const analysis::PlannedFunction& planned_;
  llvm::Function* function_;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::BasicBlock* return_ = nullptr;
  std::vector<llvm::AllocaInst*> registers_;
  std::vector<llvm::Value*> variables_;    // Address of each .local and .param variable, when made.
  std::vector<llvm::BasicBlock*> blocks_;  // For each instruction that starts one, else null.
  llvm::AllocaInst* carry_ = nullptr;
  llvm::AllocaInst* spins_ = nullptr;
  llvm::Value* shared_base_ = nullptr;
  const ptx::Instruction* instruction_ = nullptr;
  std::uint32_t position_ = 0;
  std::uint64_t taken_ = 0;  // Modifiers asked for, one bit each.
  Status status_;
};

}  // namespace cuspan::softgpu::emit
