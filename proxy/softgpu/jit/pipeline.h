// Compilation of an LLVM module to machine code.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "common/status.h"

namespace cuspan::softgpu::jit {

// Makes an object file of `module` for `machine`. With `optimise`, uses LLVM's -O2 (no fast-math,
// no contraction). A fatal error inside LLVM returns kInternal and leaks LLVM's objects. `what`
// names the module in messages.
Result<std::unique_ptr<llvm::MemoryBuffer>> CompileModule(std::unique_ptr<llvm::Module> module,
                                                          llvm::TargetMachine& machine,
                                                          bool optimise, std::string_view what);

}  // namespace cuspan::softgpu::jit
