// Checks before an access: its alignment in all modes; in checking mode, the runtime checks
// everything else, too.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <initializer_list>

#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

using ptx::Operand;
using ptx::Space;

bool Writes(const ptx::Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  return opcode == "st" || opcode == "atom" || opcode == "red" || opcode == "stmatrix" ||
         instruction.Has("store");
}

// Memory order of the access: kCheckStrong and related flags. (PTX ISA, "Memory Consistency Model")
std::uint32_t OrderOf(const ptx::Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  const auto has_one = [&](std::initializer_list<std::string_view> modifiers) {
    return std::any_of(modifiers.begin(), modifiers.end(),
                       [&](std::string_view modifier) { return instruction.Has(modifier); });
  };
  if (opcode == "mbarrier")
    return kCheckStrong | (has_one({"test_wait", "try_wait"}) ? kCheckAcquires : kCheckReleasesAll);
  const bool atomic = opcode == "atom" || opcode == "red";
  if (!atomic && !has_one({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}))
    return 0;
  std::uint32_t order = kCheckStrong;
  if (instruction.Has("volatile")) order |= kCheckVolatile;
  if (opcode == "atom" || opcode == "ld") order |= kCheckAcquires;
  if (atomic || opcode == "st")
    order |= has_one({"release", "acq_rel"}) ? kCheckReleasesAll : kCheckReleasesFenced;
  return order;
}

constexpr std::uint32_t kMisalignedAddress = 716;  // CUDA_ERROR_MISALIGNED_ADDRESS

// True if the offsets of all lanes from a base of this shape are multiples of `alignment`.
bool StepsAreMultiples(const analysis::Shape& shape, std::int64_t alignment) {
  return shape.stride % alignment == 0 && (shape.scale * shape.narrow) % alignment == 0;
}

}  // namespace

std::uint32_t AlignmentOf(std::uint64_t bytes) {
  return bytes != 0 && bytes <= 32 && (bytes & (bytes - 1)) == 0 ? static_cast<std::uint32_t>(bytes)
                                                                 : 1;
}

bool FunctionEmitter::IsAligned(const Operand& operand, Space space, std::uint32_t alignment) {
  // The emitter places a function's parameters itself.
  if (alignment == 1 || space == Space::kParam || operand.elements.size() != 1) return true;
  if (operand.offset % static_cast<std::int64_t>(alignment) != 0) return false;
  const Operand& base = operand.elements[0];
  if (base.kind == Operand::Kind::kVariable) {
    const auto& variable = body().variables[base.index];
    return std::max(variable.alignment, variable.space == Space::kLocal ? 16U : 1U) >= alignment;
  }
  if (base.kind == Operand::Kind::kSymbol) {
    const auto* const variable = module_.ptx().FindVariable(base.name);
    return variable != nullptr && variable->alignment >= alignment;
  }
  if (warp_ == nullptr || base.kind != Operand::Kind::kRegister) return false;
  const auto shape = ShapeOf(base, space == Space::kShared ? 32 : 64);
  return std::uint64_t{1} << shape.zeros >= alignment && StepsAreMultiples(shape, alignment);
}

llvm::Value* FunctionEmitter::IsMisaligned(llvm::Value* address, std::uint32_t alignment) {
  if (address->getType()->isPtrOrPtrVectorTy()) {
    auto* const integer =
        address->getType()->isVectorTy()
            ? llvm::VectorType::get(b.getInt64Ty(),
                                    llvm::cast<llvm::VectorType>(address->getType()))
            : static_cast<llvm::Type*>(b.getInt64Ty());
    address = b.CreatePtrToInt(address, integer);
  }
  auto* const type = address->getType();
  return b.CreateICmpNE(b.CreateAnd(address, llvm::ConstantInt::get(type, alignment - 1)),
                        llvm::ConstantInt::get(type, 0));
}

void FunctionEmitter::FaultIfMisaligned(llvm::Value* misaligned, std::uint32_t alignment) {
  if (const auto* const known = llvm::dyn_cast<llvm::ConstantInt>(misaligned))
    if (known->isZero()) return;
  auto* const fault = NewBlock();
  auto* const after = NewBlock();
  b.CreateCondBr(misaligned, fault, after,
                 llvm::MDBuilder(context()).createBranchWeights(1, 1 << 20));
  b.SetInsertPoint(fault);
  Fault(kMisalignedAddress,
        Format("'{}': the address is not a multiple of {}", instruction().Name(), alignment));
  b.CreateUnreachable();
  b.SetInsertPoint(after);
}

llvm::Value* FunctionEmitter::Address(const ptx::Operand& operand, ptx::Space space,
                                      std::uint64_t bytes) {
  const bool elsewhere = space == Space::kParam || space == Space::kLocal || space == Space::kConst;
  if (module_.host().interleaved && bytes != 0 && !elsewhere)
    CallRuntime("cuspan_rt_interleave", b.getVoidTy(), {ContextPointer()});
  auto* const address = UncheckedAddress(operand, space, bytes);
  if (failed() || bytes == 0 || space == ptx::Space::kParam || operand.elements.empty())
    return address;
  const std::uint32_t alignment = AlignmentOf(bytes);
  if (!module_.host().check_accesses) {
    if (!IsAligned(operand, space, alignment))
      FaultIfMisaligned(IsMisaligned(address, alignment), alignment);
    return address;
  }
  const ptx::Operand& base = operand.elements[0];
  // Variables of the thread's own frame and kernel parameters need no further check.
  if (base.kind == ptx::Operand::Kind::kVariable &&
      body().variables[base.index].space != ptx::Space::kShared)
    return address;
  const bool names_variable =
      base.kind == ptx::Operand::Kind::kVariable || base.kind == ptx::Operand::Kind::kSymbol;
  const ptx::Space home = names_variable ? SpaceOf(base) : space;
  std::uint32_t kind = Writes(instruction()) ? kCheckWrite : 0;
  if (home == ptx::Space::kShared) kind |= kCheckShared;
  kind |= OrderOf(instruction());
  const std::string_view opcode = instruction().opcode;
  if (opcode == "cp" || opcode == "ldmatrix" || opcode == "stmatrix") kind |= kCheckAlone;
  CallRuntime("cuspan_rt_check", b.getVoidTy(),
              {ContextPointer(), address, b.getInt64(bytes), b.getInt32(alignment),
               b.getInt32(kind), module_.Text(Format("{}: '{}'", Where(), instruction().Name()))});
  return address;
}

}  // namespace cuspan::softgpu::emit
