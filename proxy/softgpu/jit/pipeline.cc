#include "proxy/softgpu/jit/pipeline.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>

#include <csetjmp>
#include <mutex>
#include <string>

namespace cuspan::softgpu::jit {
namespace {

// Continuation after a fatal LLVM error on this thread; LLVM would end the process.
struct Rescue {
  std::jmp_buf place;
  char reason[256];
};
thread_local Rescue* current_rescue = nullptr;

void OnFatalError(void*, const char* reason, bool) {
  Rescue* const rescue = current_rescue;
  if (rescue == nullptr) return;  // Other thread: LLVM ends the process.
  current_rescue = nullptr;
  std::size_t length = 0;
  while (reason != nullptr && reason[length] != 0 && length + 1 < sizeof rescue->reason) {
    rescue->reason[length] = reason[length];
    ++length;
  }
  rescue->reason[length] = 0;
  std::longjmp(rescue->place, 1);
}

void Optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

// Separate from CompileModule, so that the frame resumed by longjmp has no objects with
// destructors. Never inlined for the same reason.
[[gnu::noinline]] void CompileInto(llvm::Module* module, llvm::TargetMachine* machine,
                                   bool optimise, std::unique_ptr<llvm::MemoryBuffer>* object,
                                   std::string* problem) {
  if (optimise) Optimise(*module, *machine);
  auto result = llvm::orc::SimpleCompiler(*machine)(*module);
  if (result) {
    *object = std::move(*result);
  } else {
    *problem = llvm::toString(result.takeError());
  }
}

bool CompileWithRescue(llvm::Module* module, llvm::TargetMachine* machine, bool optimise,
                       std::unique_ptr<llvm::MemoryBuffer>* object, std::string* problem,
                       Rescue* rescue) {
  if (setjmp(rescue->place) != 0) return false;
  current_rescue = rescue;
  CompileInto(module, machine, optimise, object, problem);
  current_rescue = nullptr;
  return true;
}

}  // namespace

Result<std::unique_ptr<llvm::MemoryBuffer>> CompileModule(std::unique_ptr<llvm::Module> module,
                                                          llvm::TargetMachine& machine,
                                                          bool optimise, std::string_view what) {
  static std::once_flag installed;
  std::call_once(installed, [] { llvm::install_fatal_error_handler(OnFatalError); });
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  std::unique_ptr<llvm::MemoryBuffer> object;
  std::string problem;
  Rescue rescue{};
  if (!CompileWithRescue(module.get(), &machine, optimise, &object, &problem, &rescue)) {
    (void)module.release();  // Unsafe to destroy in the middle of a pass.
    return Status::Internal("{}: LLVM could not compile it: {}", what, rescue.reason);
  }
  if (object == nullptr)
    return Status::Internal("{}: LLVM could not compile it: {}", what, problem);
  return object;
}

}  // namespace cuspan::softgpu::jit
