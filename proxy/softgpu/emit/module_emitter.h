// One LLVM module: a kernel, the functions it may call, and the names by which
// its code reaches memory and the runtime.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/status.h"
#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/reconvergence.h"
#include "proxy/softgpu/analysis/warp_plan.h"

namespace cuspan::softgpu::emit {

// What the instructions of the machine that the code will run on decide here.
struct Host {
  bool avx512f = false;
  bool avx512fp16 = false;
  bool interleaved = false;     // Nor this: other threads get on before each access.
  bool check_accesses = false;  // Not of the machine: every access is checked before it is made.
};

// Symbols of the LLVM module that its user defines: a variable's address, and a
// function's (an address that stands for it; nothing is read from there).
std::string VariableSymbol(std::string_view name);
std::string FunctionSymbol(std::string_view name);
// The names in such symbols; nullopt for other symbols.
std::optional<std::string_view> NameOfVariableSymbol(std::string_view symbol);
std::optional<std::string_view> NameOfFunctionSymbol(std::string_view symbol);
// The kernel's entry point, a KernelEntry.
std::string EntrySymbol(std::string_view name);

class ModuleEmitter {
 public:
  // Points by function of the plan where the threads of a warp wait for each other.
  using ReconvergencePoints = std::vector<std::vector<analysis::ReconvergencePoint>>;

  // All arguments must outlive the emitter. With `warps` the code is for a warp
  // at a time, otherwise for one thread, with `points`.
  ModuleEmitter(llvm::LLVMContext& context, const ptx::Module& module,
                const analysis::KernelPlan& plan, const analysis::WarpPlan* warps,
                const ReconvergencePoints& points, const Host& host);

  // Emits everything and verifies it. Fails naming kernel, line and instruction.
  // Called once.
  Result<std::unique_ptr<llvm::Module>> Emit();

  llvm::LLVMContext& context() { return context_; }
  const ptx::Module& ptx() const { return module_; }
  const analysis::KernelPlan& plan() const { return plan_; }
  const analysis::WarpPlan* warps() const { return warps_; }
  const Host& host() const { return host_; }
  const ptx::Function& kernel() const { return module_.functions[plan_.functions[0].index]; }

  // The LLVM function for a function of the plan, by its index in the PTX module; null when not
  // planned.
  llvm::Function* FunctionOf(std::uint32_t index) const;
  // Address of a .global or .const variable, or what stands for a function's address.
  llvm::Constant* VariableAddress(std::string_view name);
  llvm::Constant* FunctionAddress(std::string_view name);
  // A function outside the module. `pure`: reads and writes no memory and always returns.
  llvm::FunctionCallee External(std::string_view name, llvm::Type* result,
                                llvm::ArrayRef<llvm::Type*> arguments, bool pure);
  // Address of a constant string.
  llvm::Constant* Text(const std::string& text);

 private:
  void Declare();

  llvm::LLVMContext& context_;
  const ptx::Module& module_;
  const analysis::KernelPlan& plan_;
  const analysis::WarpPlan* const warps_;
  const ReconvergencePoints& points_;
  const Host host_;
  std::unique_ptr<llvm::Module> out_;
  std::unordered_map<std::uint32_t, llvm::Function*> functions_;
};

}  // namespace cuspan::softgpu::emit
