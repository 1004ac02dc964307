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

// What the address of a scalar or vector access of so many bytes must be a multiple of: its size
// (PTX ISA, "Addresses as operands"). Bytes that are no power of two belong to accesses with rules
// of their own: 1.
std::uint32_t AlignmentOf(std::uint64_t bytes);

class FunctionEmitter {
 public:
  // With `warp` the function is for a warp, otherwise for one thread, with `points`.
  FunctionEmitter(ModuleEmitter& module, const analysis::PlannedFunction& planned,
                  const analysis::WarpFunction* warp,
                  const std::vector<analysis::ReconvergencePoint>& points,
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
  llvm::Type* Float() { return Wide(llvm::Type::getFloatTy(context())); }
  llvm::Type* Double() { return Wide(llvm::Type::getDoubleTy(context())); }
  llvm::Type* Half() { return Wide(llvm::Type::getHalfTy(context())); }
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
  // there; after a check that it is a multiple of what such an access needs, in checking mode that
  // all of the access is allowed.
  llvm::Value* Address(const ptx::Operand& operand, ptx::Space space, std::uint64_t bytes);
  // The same without the check.
  llvm::Value* UncheckedAddress(const ptx::Operand& operand, ptx::Space space, std::uint64_t bytes);
  // Is it known, whatever the lane, that the operand's address is a multiple of `alignment`?
  bool IsAligned(const ptx::Operand& operand, ptx::Space space, std::uint32_t alignment);
  // Whether an address, a pointer or an integer, or each of a vector, is no multiple of it; i1.
  llvm::Value* IsMisaligned(llvm::Value* address, std::uint32_t alignment);
  // Ends the kernel with CUDA_ERROR_MISALIGNED_ADDRESS where the i1 is true.
  void FaultIfMisaligned(llvm::Value* misaligned, std::uint32_t alignment);
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
  std::string SourcePlace() const;
  // Lets other threads run, every few times that this is passed, if the current
  // instruction is the backward branch of a spin loop.
  void YieldInSpinLoop();
  // Has the threads of a warp wait for each other, if the current instruction has such a point.
  void Reconverge(analysis::ReconvergencePoint::Side side);
  // Leaves the function.
  void Return();

  // --- Code for a warp (warp_*.cc). While an instruction is emitted, its values
  // have width() elements: one for each lane, for each row of lanes or for the
  // warp (see analysis/shape.h).

  // Null in code for one thread.
  const analysis::WarpFunction* warp() const { return warp_; }
  const analysis::WarpLayout& layout() const { return module_.warps()->layout; }
  unsigned width() const { return width_; }
  bool in_lane_loop() const { return lane_ != nullptr; }
  // The lanes that execute the instruction, as bits of an i32 (never 0) and as an <32 x i1>.
  llvm::Value* mask() { return mask_; }
  llvm::Value* MaskVector() { return LaneBits(mask_); }
  // An i32 as <32 x i1> and back.
  llvm::Value* LaneBits(llvm::Value* word);
  llvm::Value* Ballot(llvm::Value* lanes);
  // Do all lanes that have not ended execute the instruction together, whatever happens?
  bool together() const { return together_ && guard_ == nullptr; }
  // All lanes that have not ended, and will not before others that are here have gone on.
  llvm::Value* Awaited();
  // Lanes that others, which have gone on, took for lanes that end without meeting anybody; null
  // where there are never such.
  llvm::Value* Owing();
  void Owe(llvm::Value* lanes);
  const analysis::InstructionPlan& instruction_plan() const {
    return warp_->instructions[position_];
  }
  // A scalar for all elements of the present width.
  llvm::Value* Same(llvm::Value* scalar);
  // Repeats the elements of `value`, one for the warp or for each row, to `width` of them.
  llvm::Value* Repeat(llvm::Value* value, unsigned width);
  // 0, 1, 2 … or, for rows, each lane's place in its row; 32 constants of `bits` bits.
  llvm::Constant* LaneNumbers(unsigned bits);
  llvm::Constant* PlacesInRows(unsigned bits);
  analysis::Shape ShapeOf(const ptx::Operand& operand, unsigned bits) const;
  // The anchors of a register whose shape has an extension.
  llvm::Value* Anchor(const ptx::Operand& operand);

  // Emits with values of `width` elements; with `lane`, scalars of that lane.
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
  // Repeats what `body` emits for each lane of `mask()`, as scalars. Registers
  // that it writes get their values behind the loop. `body` is called once.
  void ForEachLane(const std::function<void()>& body);
  // Memory for one value of each lane, of an LLVM type; valid until the next instruction.
  llvm::AllocaInst* Scratch(llvm::Type* type);
  // The address of the element of `scratch` for the lane of the loop.
  llvm::Value* ScratchOf(llvm::AllocaInst* scratch, llvm::Value* lane);
  llvm::Value* lane() { return lane_; }
  // The shape of what the next Write has, when it is not the plan's.
  void SetResult(const analysis::Shape& shape) { result_ = shape; }
  // Shared addresses may be negative: what inactive lanes have counts as well.
  void SetSignedOffsets(bool on) { signed_offsets_ = on; }
  // Tells the runtime which lane calls it: that of the loop, or the first of mask().
  void SelectLane();
  // Runs `emit` with the lanes of `mask` only, a branch around it for when there are none.
  void Within(llvm::Value* mask, const std::function<void()>& emit);
  // Pointer to a .local or .param variable of the body, that of lane 0.
  llvm::Value* FrameAddress(std::uint32_t variable);

  llvm::IRBuilder<> b;  // Every file of the families writes through it.

 private:
  void CreateFrame();
  void CreateBlocks();
  void ClearReservedShared();
  void EmitInstructions();
  void EmitOne(std::uint32_t index);
  void Dispatch();
  // The place of the current instruction's point there; nullopt if it has none.
  std::optional<std::uint64_t> PlaceOfPoint(analysis::ReconvergencePoint::Side side) const;
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
  // The register's value as it is stored, for the present width.
  llvm::Value* LoadRegister(std::uint32_t index);
  void StoreRegister(std::uint32_t index, llvm::Value* value);
  // `base` values of a shape (and their anchors) for the present width or lane.
  llvm::Value* FromShape(llvm::Value* base, const analysis::Shape& shape, llvm::Value* anchor);
  llvm::Type* Wide(llvm::Type* scalar);
  unsigned CountOf(analysis::Spread spread) const;
  // Is `index` a variable of which every lane has its own?
  bool IsOwnVariable(std::uint32_t index) const;
  llvm::Value* OwnVariableValue(const ptx::Operand& operand);
  llvm::Argument* FormalArgument(std::size_t i) const;

  void EmitWarp();
  void EmitNode(std::uint32_t node);
  void EmitWarpInstruction(std::uint32_t index);
  void EmitByWay();
  void EmitEnd(std::uint32_t node, const ptx::Instruction* last);
  struct Way {
    std::uint32_t target;  // A node, or kNoIndex to end.
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
  std::vector<llvm::Value*> variables_;    // Address of each .local and .param variable, when made.
  std::vector<llvm::BasicBlock*> blocks_;  // For each instruction that starts one, else null.
  llvm::AllocaInst* carry_ = nullptr;
  llvm::AllocaInst* spins_ = nullptr;
  llvm::Value* shared_base_ = nullptr;
  const ptx::Instruction* instruction_ = nullptr;
  std::uint32_t position_ = 0;
  std::uint64_t taken_ = 0;  // Modifiers asked for, one bit each.
  Status status_;

  // Of code for a warp.
  const analysis::WarpFunction* warp_ = nullptr;
  unsigned width_ = 1;
  llvm::Value* lane_ = nullptr;
  llvm::Value* mask_ = nullptr;
  llvm::Value* guard_ = nullptr;  // <32 x i1>: lanes that writes change, when not all.
  const analysis::Bits* kept_ = nullptr;
  analysis::Shape result_;
  llvm::Value* result_anchor_ = nullptr;
  bool signed_offsets_ = false;
  analysis::FlowGraph flow_;
  bool together_ = false;
  std::uint32_t node_ = 0;                  // That is executed.
  std::vector<llvm::AllocaInst*> anchors_;  // By register; null without extension.
  std::vector<llvm::AllocaInst*> node_masks_;
  std::vector<llvm::BasicBlock*> node_blocks_, node_checks_;
  llvm::AllocaInst* alive_ = nullptr;
  llvm::AllocaInst* owing_ = nullptr;
  llvm::AllocaInst* return_mask_ = nullptr;
  // The lane loop being emitted.
  llvm::BasicBlock* before_loop_ = nullptr;
  std::map<std::uint32_t, llvm::AllocaInst*> loop_reads_, loop_writes_;
  std::map<llvm::Type*, std::vector<llvm::AllocaInst*>> scratch_;
  std::map<llvm::Type*, std::size_t> scratch_used_;
  std::map<unsigned, llvm::Value*> special_;
};

}  // namespace cuspan::softgpu::emit
