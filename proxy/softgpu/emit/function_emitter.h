// Makes the LLVM function of one PTX function.
//
// This class has the common parts of all instructions: reading and writing operands, addresses, the
// thread's context, errors. The files of the instruction families (int.cc, float.cc, mem.cc, …)
// implement the instructions, using only this class. They name LLVM types of values only through
// Int() and TypeOf(), so that a value can be a vector with one element per lane.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proxy/softgpu/analysis/cfg.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/reconvergence.h"
#include "proxy/softgpu/analysis/warp_plan.h"
#include "proxy/softgpu/emit/module_emitter.h"

namespace cuspan::softgpu::emit {

inline constexpr std::uint32_t kLaunchFailed = 719;  // CUDA_ERROR_LAUNCH_FAILED (cuda.h)

enum class Rounding : std::uint8_t { kNearest, kZero, kDown, kUp };

// Required alignment of a scalar or vector access of this size: the size itself (PTX ISA,
// "Addresses as operands"). Returns 1 for sizes not a power of two, used by accesses with rules of
// their own.
std::uint32_t AlignmentOf(std::uint64_t bytes);

class FunctionEmitter {
 public:
  // Makes a function for a warp if `warp` is set, else for one thread, with `points`.
  FunctionEmitter(ModuleEmitter& module, const analysis::PlannedFunction& planned,
                  const analysis::WarpFunction* warp,
                  const std::vector<analysis::ReconvergencePoint>& points,
                  llvm::Function* function);

  // Emits the whole function. Called once.
  Status Emit();

  // --- Current instruction

  const ptx::Instruction& instruction() const { return *instruction_; }
  std::size_t operand_count() const { return instruction_->operands.size(); }
  // Operand `i`, or one of kind kNone.
  const ptx::Operand& operand(std::size_t i) const;
  // Its type `i`, or kNone.
  ptx::Type type(std::size_t i = 0) const {
    return i < 4 ? instruction_->types[i] : ptx::Type::kNone;
  }
  // True if the instruction has this modifier. Modifiers never queried are refused at the end.
  bool Consume(std::string_view modifier);
  // Rounding modifier (.rn .rz .rm .rp), or `otherwise`.
  Rounding ConsumeRounding(Rounding otherwise);

  // Records an error of the current instruction; the first one counts. Emission continues with
  // harmless values.
  void Refuse(std::string_view reason);   // kUnsupported
  void Reject(std::string_view problem);  // kInvalid
  bool failed() const { return !status_.ok(); }

  // --- Types and constants

  llvm::Type* Int(unsigned bits);
  llvm::Type* Float() { return Wide(llvm::Type::getFloatTy(context())); }
  llvm::Type* Double() { return Wide(llvm::Type::getDoubleTy(context())); }
  llvm::Type* Half() { return Wide(llvm::Type::getHalfTy(context())); }
  llvm::PointerType* Pointer() { return llvm::PointerType::getUnqual(context()); }
  // LLVM type of a value of `type`: iN, half, float or double; i1 for a predicate, and integers for
  // the bits of bf16, f16x2 and bf16x2.
  llvm::Type* TypeOf(ptx::Type type);
  llvm::Value* ConstInt(unsigned bits, std::uint64_t value);
  llvm::LLVMContext& context() { return module_.context(); }
  ModuleEmitter& module() { return module_; }
  const ptx::Function& function() const { return module_.ptx().functions[planned_.index]; }

  // --- Operands

  // Value of an operand, as TypeOf(type).
  llvm::Value* Read(const ptx::Operand& operand, ptx::Type type);
  llvm::Value* Read(std::size_t i, ptx::Type type) { return Read(operand(i), type); }
  // Stores TypeOf(type) in a register, extended to a wider register by the type's signedness.
  void Write(const ptx::Operand& operand, llvm::Value* value, ptx::Type type);
  void Write(llvm::Value* value, ptx::Type type) { Write(operand(0), value, type); }
  // Width in bits of a register, special register or address operand; 0 for others.
  unsigned OperandBits(const ptx::Operand& operand) const;
  bool IsPredicate(const ptx::Operand& operand) const;

  // --- Memory (addresses are LLVM pointers)

  // Address of the kAddress operand in `space`, for an access of `bytes`. Emits a check of its
  // alignment, and in checking mode of the whole access.
  llvm::Value* Address(const ptx::Operand& operand, ptx::Space space, std::uint64_t bytes);
  // Like Address, without checks.
  llvm::Value* UncheckedAddress(const ptx::Operand& operand, ptx::Space space, std::uint64_t bytes);
  // True if the operand's address is known to be a multiple of `alignment` in all lanes.
  bool IsAligned(const ptx::Operand& operand, ptx::Space space, std::uint32_t alignment);
  // i1, or a vector of them: true if an address (pointer or integer) is not a multiple of
  // `alignment`.
  llvm::Value* IsMisaligned(llvm::Value* address, std::uint32_t alignment);
  // Ends the kernel with CUDA_ERROR_MISALIGNED_ADDRESS if the i1 is true.
  void FaultIfMisaligned(llvm::Value* misaligned, std::uint32_t alignment);
  // Address of a variable in its own state space, as an integer: the result of `mov`.
  llvm::Value* VariableValue(const ptx::Operand& operand, unsigned bits);
  // State space named by a modifier; kGeneric without one.
  ptx::Space ConsumeSpace();
  llvm::Value* SharedBase();
  llvm::Value* ContextPointer() { return function_->getArg(0); }
  // Field of ThreadContext, constant while a thread runs.
  llvm::Value* ContextField(std::size_t offset, llvm::Type* type);
  // Memory in this function's frame.
  llvm::AllocaInst* Frame(llvm::Type* type, unsigned alignment);
  llvm::AllocaInst* FrameBytes(std::uint64_t bytes, unsigned alignment);
  // PTX's condition code CC.CF, an i1.
  llvm::Value* Carry();
  void SetCarry(llvm::Value* carry);

  // --- Calls and control flow

  // Calls a function of rt/abi.h or jit/helpers.h. The arguments determine its type.
  llvm::Value* CallRuntime(std::string_view name, llvm::Type* result,
                           llvm::ArrayRef<llvm::Value*> arguments, bool pure = false);
  // Ends the thread with a driver error. The block has no terminator and is dead.
  void Fault(std::uint32_t driver_error, std::string_view what);
  // Block starting at the instruction with this index; one past the last is the return block.
  llvm::BasicBlock* BlockAt(std::uint32_t position);
  const ptx::Body& body() const { return *planned_.body; }
  // "kernel 'k', PTX line 12", with the function's name if it is another.
  std::string Where() const;
  std::string SourceLocation() const;
  // If the current instruction is the backward branch of a spin loop, lets other threads run every
  // few iterations.
  void YieldInSpinLoop();
  // Makes the threads of a warp wait for each other, if the current instruction has a point on this
  // side.
  void Reconverge(analysis::ReconvergencePoint::Side side);
  // Returns from the function.
  void Return();

  // --- Code for a warp (warp_*.cc). During the emission of an instruction, its values have width()
  // elements: one per lane, per row of lanes, or per warp (see analysis/shape.h).

  // Null in code for one thread.
  const analysis::WarpFunction* warp() const { return warp_; }
  const analysis::WarpLayout& layout() const { return module_.warps()->layout; }
  unsigned width() const { return width_; }
  bool in_lane_loop() const { return lane_ != nullptr; }
  // Lanes executing the instruction, as bits of an i32 (never 0) and as <32 x i1>.
  llvm::Value* mask() { return mask_; }
  llvm::Value* MaskVector() { return LaneBits(mask_); }
  // Converts an i32 to <32 x i1>, and back.
  llvm::Value* LaneBits(llvm::Value* word);
  llvm::Value* Ballot(llvm::Value* lanes);
  // True if all unfinished lanes always execute the instruction together.
  bool together() const { return together_ && guard_ == nullptr; }
  // Unfinished lanes, without waiting lanes certain to end without meeting others.
  llvm::Value* Awaited();
  // Lanes named by a collective executed without them, in the expectation of their end. Null if
  // there are none in this kernel.
  llvm::Value* Owing();
  void Owe(llvm::Value* lanes);
  const analysis::InstructionPlan& instruction_plan() const {
    return warp_->instructions[position_];
  }
  // Scalar copied to all elements of the present width.
  llvm::Value* Same(llvm::Value* scalar);
  // Repeats the elements of `value`, one for the warp or for each row, to `width` of them.
  llvm::Value* Repeat(llvm::Value* value, unsigned width);
  // Constants of 32 elements of `bits` bits: 0, 1, 2 … or each lane's position in its row.
  llvm::Constant* LaneNumbers(unsigned bits);
  llvm::Constant* PlacesInRows(unsigned bits);
  analysis::Shape ShapeOf(const ptx::Operand& operand, unsigned bits) const;
  // Anchors of a register with an extension in its shape.
  llvm::Value* Anchor(const ptx::Operand& operand);

  // Emits with values of `width` elements, or with scalars of `lane`.
  template <typename Emit>
  auto WithWidth(unsigned width, Emit emit, llvm::Value* lane = nullptr) {
    const auto saved = std::pair(width_, lane_);
    width_ = width;
    lane_ = lane;
    struct Restore {
      FunctionEmitter& e;
      std::pair<unsigned, llvm::Value*> saved;
      ~Restore() { std::tie(e.width_, e.lane_) = saved; }
    } restore{*this, saved};
    return emit();
  }
  // Emits a loop over the lanes of `mask()`, with scalars. Registers written in it get their values
  // behind the loop. `body` is called once.
  void ForEachLane(const std::function<void()>& body);
  // Memory for one value per lane, of an LLVM type; valid until the next instruction.
  llvm::AllocaInst* Scratch(llvm::Type* type);
  // Address of the element of `scratch` for the loop's lane.
  llvm::Value* ScratchOf(llvm::AllocaInst* scratch, llvm::Value* lane);
  llvm::Value* lane() { return lane_; }
  // Sets the shape of the next Write's value, if different from the plan.
  void SetResult(const analysis::Shape& shape) { result_ = shape; }
  // Allows negative shared addresses: values of inactive lanes count, too.
  void SetSignedOffsets(bool on) { signed_offsets_ = on; }
  // Sets the calling lane for the runtime: the loop's lane, or the first of mask().
  void SelectLane();
  // Emits `emit` for the lanes of `mask` only, with a branch around it for an empty mask.
  void Within(llvm::Value* mask, const std::function<void()>& emit);
  // Pointer to lane 0's copy of a .local or .param variable of the body.
  llvm::Value* FrameAddress(std::uint32_t variable);

  llvm::IRBuilder<> b;  // Used by all instruction families.

 private:
  void CreateFrame();
  void CreateBlocks();
  void ClearReservedShared();
  void EmitInstructions();
  void EmitOne(std::uint32_t index);
  void Dispatch();
  // Position of the current instruction's point on this side; nullopt without one.
  std::optional<std::uint64_t> PositionOfPoint(analysis::ReconvergencePoint::Side side) const;
  llvm::Value* Coerce(llvm::Value* value, unsigned bits, bool is_signed);
  llvm::Value* ReadRegister(const ptx::Operand& operand, ptx::Type type);
  llvm::Value* ReadImmediate(const ptx::Operand& operand, ptx::Type type);
  llvm::Value* ReadSpecial(ptx::SpecialRegister which);
  // Space of a variable or symbol of the module; kGeneric for a function. Rejects unknown names.
  ptx::Space SpaceOf(const ptx::Operand& operand);
  // Offset of a shared variable in the block's shared memory.
  std::uint64_t SharedOffset(const ptx::Operand& operand);
  // LLVM types of the registers: float or double for those mostly holding one.
  std::vector<llvm::Type*> ChooseRegisterTypes();
  // Offset in ThreadContext::params of a kernel's formal parameter.
  std::uint64_t ParameterOffset(std::uint32_t variable) const;
  // Value of the register as stored, for the present width.
  llvm::Value* LoadRegister(std::uint32_t index);
  void StoreRegister(std::uint32_t index, llvm::Value* value);
  // Expands `base` values of a shape (and their anchors) to the present width or lane.
  llvm::Value* FromShape(llvm::Value* base, const analysis::Shape& shape, llvm::Value* anchor);
  llvm::Type* Wide(llvm::Type* scalar);
  unsigned CountOf(analysis::Spread spread) const;
  // True if every lane has its own copy of variable `index`.
  bool IsOwnVariable(std::uint32_t index) const;
  llvm::Value* OwnVariableValue(const ptx::Operand& operand);
  llvm::Argument* FormalArgument(std::size_t i) const;

  void EmitWarp();
  void EmitNode(std::uint32_t node);
  void EmitWarpInstruction(std::uint32_t index);
  void EmitByWay();
  void EmitEnd(std::uint32_t node, const ptx::Instruction* last);
  struct Way {
    std::uint32_t target;  // Node, or kNoIndex to end.
    llvm::Value* mask;
  };
  void Go(std::uint32_t node, llvm::ArrayRef<Way> ways);
  llvm::BasicBlock* NewBlock() {
    return llvm::BasicBlock::Create(context(), "", function_, return_);
  }
  llvm::Value* CallForLanes(std::string_view name, llvm::Type* result,
                            llvm::ArrayRef<llvm::Value*> arguments, bool pure);
  llvm::Value* ReadWarpSpecial(ptx::SpecialRegister which);
  llvm::Value* RowIndices();
  void StoreWarpResults();

  ModuleEmitter& module_;
  const analysis::PlannedFunction& planned_;
  const std::vector<analysis::ReconvergencePoint>& points_;
  llvm::Function* function_;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::BasicBlock* return_ = nullptr;
  std::vector<llvm::AllocaInst*> registers_;
  std::vector<llvm::Value*> variables_;    // Addresses of .local and .param variables, or null.
  std::vector<llvm::BasicBlock*> blocks_;  // Blocks by first instruction, else null.
  llvm::AllocaInst* carry_ = nullptr;
  llvm::AllocaInst* spins_ = nullptr;
  llvm::Value* shared_base_ = nullptr;
  const ptx::Instruction* instruction_ = nullptr;
  std::uint32_t position_ = 0;
  std::uint64_t taken_ = 0;  // Modifiers queried, one bit each.
  Status status_;

  // --- State of code for a warp
  const analysis::WarpFunction* warp_ = nullptr;
  unsigned width_ = 1;
  llvm::Value* lane_ = nullptr;
  llvm::Value* mask_ = nullptr;
  llvm::Value* guard_ = nullptr;  // <32 x i1>: lanes changed by writes; null for all.
  const analysis::Bits* kept_ = nullptr;
  analysis::Shape result_;
  llvm::Value* result_anchor_ = nullptr;
  bool signed_offsets_ = false;
  analysis::FlowGraph flow_;
  bool together_ = false;
  std::uint32_t node_ = 0;                  // Current node.
  std::vector<llvm::AllocaInst*> anchors_;  // Indexed by register; null without extension.
  std::vector<llvm::AllocaInst*> node_masks_;
  std::vector<llvm::BasicBlock*> node_blocks_, node_checks_;
  llvm::AllocaInst* alive_ = nullptr;
  llvm::AllocaInst* owing_ = nullptr;
  llvm::AllocaInst* return_mask_ = nullptr;
  // State of the lane loop being emitted.
  llvm::BasicBlock* before_loop_ = nullptr;
  std::map<std::uint32_t, llvm::AllocaInst*> loop_reads_, loop_writes_;
  std::map<llvm::Type*, std::vector<llvm::AllocaInst*>> scratch_;
  std::map<llvm::Type*, std::size_t> scratch_used_;
  std::map<unsigned, llvm::Value*> special_;
};

}  // namespace cuspan::softgpu::emit
