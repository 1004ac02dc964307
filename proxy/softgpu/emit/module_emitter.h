// One LLVM module: a kernel, its callees, and the symbols for memory and the runtime.
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

// Properties of the machine and of the mode affecting the code.
struct Host {
  bool avx512f = false;
  bool avx512fp16 = false;
  bool interleaved = false;     // Mode: other threads may run before each access.
  bool check_accesses = false;  // Mode: each access is checked first.
};

// Symbols to be defined by the user of the LLVM module: the address of a variable, and an address
// identifying a function (never dereferenced).
std::string VariableSymbol(std::string_view name);
std::string FunctionSymbol(std::string_view name);
// PTX names in these symbols; nullopt for other symbols.
std::optional<std::string_view> NameOfVariableSymbol(std::string_view symbol);
std::optional<std::string_view> NameOfFunctionSymbol(std::string_view symbol);
// Entry point of the kernel, a KernelEntry.
std::string EntrySymbol(std::string_view name);

class ModuleEmitter {
 public:
  // Points where the threads of a warp wait for each other, by function of the plan.
  using ReconvergencePoints = std::vector<std::vector<analysis::ReconvergencePoint>>;

  // All arguments must outlive the emitter. Makes code for a warp at a time if `warps` is set, else
  // for one thread, with `points`.
  ModuleEmitter(llvm::LLVMContext& context, const ptx::Module& module,
                const analysis::KernelPlan& plan, const analysis::WarpPlan* warps,
                const ReconvergencePoints& points, const Host& host);

  // Emits and verifies everything. Errors name kernel, line and instruction. Called once.
  Result<std::unique_ptr<llvm::Module>> Emit();

  llvm::LLVMContext& context() { return context_; }
  const ptx::Module& ptx() const { return module_; }
  const analysis::KernelPlan& plan() const { return plan_; }
  const analysis::WarpPlan* warps() const { return warps_; }
  const Host& host() const { return host_; }
  const ptx::Function& kernel() const { return module_.functions[plan_.functions[0].index]; }

  // LLVM function for the function with this index in the PTX module; null if not in the plan.
  llvm::Function* FunctionOf(std::uint32_t index) const;
  // Address of a .global or .const variable, or address identifying a function.
  llvm::Constant* VariableAddress(std::string_view name);
  llvm::Constant* FunctionAddress(std::string_view name);
  // Function outside the module. `pure`: reads and writes no memory, and always returns.
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
