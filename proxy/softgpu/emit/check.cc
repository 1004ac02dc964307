// The checking mode: each access asks the runtime first.
#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/rt/abi.h"

namespace cuspan::softgpu::emit {
namespace {

bool Writes(const ptx::Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  return opcode == "st" || opcode == "atom" || opcode == "red" || instruction.Has("store");
}

// PTX's rule for a scalar or vector access: a multiple of its size; bytes that are no power of
// two belong to accesses with rules of their own.
std::uint32_t AlignmentOf(std::uint64_t bytes) {
  return bytes != 0 && bytes <= 32 && (bytes & (bytes - 1)) == 0 ? static_cast<std::uint32_t>(bytes)
                                                                 : 1;
}

}  // namespace

llvm::Value* FunctionEmitter::Address(const ptx::Operand& operand, ptx::Space space,
                                      std::uint64_t bytes) {
  auto* const address = UncheckedAddress(operand, space, bytes);
  if (!module_.host().check_memory || failed() || bytes == 0 || space == ptx::Space::kParam)
    return address;
  if (operand.elements.empty()) return address;
  const ptx::Operand& base = operand.elements[0];
  // What lies in the thread's own frame, or is a kernel's parameter, was checked just now.
  if (base.kind == ptx::Operand::Kind::kVariable &&
      body().variables[base.index].space != ptx::Space::kShared)
    return address;
  const bool names_variable =
      base.kind == ptx::Operand::Kind::kVariable || base.kind == ptx::Operand::Kind::kSymbol;
  const ptx::Space home = names_variable ? SpaceOf(base) : space;
  std::uint32_t kind = Writes(instruction()) ? kCheckWrite : 0;
  if (home == ptx::Space::kShared) kind |= kCheckShared;
  CallRuntime("cuspan_rt_check", b.getVoidTy(),
              {ContextPointer(), address, b.getInt64(bytes), b.getInt32(AlignmentOf(bytes)),
               b.getInt32(kind), module_.Text(Format("{}: '{}'", Where(), instruction().Name()))});
  return address;
}

}  // namespace cuspan::softgpu::emit
