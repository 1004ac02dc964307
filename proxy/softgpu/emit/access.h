// Helpers of ld and st, for one thread and for a warp.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include "proxy/softgpu/emit/function_emitter.h"
#include "proxy/softgpu/emit/memory_order.h"

namespace cuspan::softgpu::emit {

struct Access {
  ptx::Type type;
  unsigned length;  // Elements.
  ptx::Space space;
  MemoryOrder order;

  std::uint64_t bytes() const { return std::uint64_t{ptx::BytesOf(type)} * length; }
  bool may_be_frame() const {
    return space == ptx::Space::kLocal || space == ptx::Space::kGeneric ||
           space == ptx::Space::kParam;
  }
};

// Reads the type, vector length, state space and memory order of the current instruction.
Access ConsumeAccess(FunctionEmitter& e);
// Elements of the vector operand `i` of `length`, or the operand itself.
llvm::ArrayRef<ptx::Operand> Elements(FunctionEmitter& e, std::size_t i, unsigned length);

// Accesses of one thread at a pointer; values have TypeOf(access.type).
llvm::SmallVector<llvm::Value*, 8> LoadElements(FunctionEmitter& e, const Access& access,
                                                llvm::Value* from);
void StoreElements(FunctionEmitter& e, const Access& access, llvm::Value* to,
                   llvm::ArrayRef<llvm::Value*> values);

// Accesses of a warp at the current instruction's address operand (warp_memory.cc).
void EmitWarpLoad(FunctionEmitter& e, const Access& access,
                  llvm::ArrayRef<ptx::Operand> destinations);
void EmitWarpStore(FunctionEmitter& e, const Access& access, llvm::ArrayRef<ptx::Operand> sources);

}  // namespace cuspan::softgpu::emit
