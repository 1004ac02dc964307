// From an LLVM module to machine code.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "common/status.h"

namespace cuspan::softgpu::jit {

// Optimises `module` for `machine` (LLVM's -O2; no fast-math, no contraction) if `optimise`,
// and makes an object file of it. A fatal error inside LLVM becomes kInternal;
// what LLVM held then is leaked. `what` names the module in messages.
Result<std::unique_ptr<llvm::MemoryBuffer>> CompileModule(std::unique_ptr<llvm::Module> module,
                                                          llvm::TargetMachine& machine,
                                                          bool optimise, std::string_view what);

}  // namespace cuspan::softgpu::jit
