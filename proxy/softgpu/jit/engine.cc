#include "proxy/softgpu/jit/engine.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

#include "common/log.h"
#include "proxy/softgpu/jit/helpers.h"
#include "proxy/softgpu/jit/pipeline.h"

namespace cuspan::softgpu::jit {
namespace {

// An LLVM error as ours.
Status Failure(llvm::Error error, std::string_view what) {
  return Status::Internal("software GPU: {}: {}", what, llvm::toString(std::move(error)));
}

void InitialiseOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

}  // namespace

struct Engine::State {
  emit::Host host;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

const emit::Host& Engine::host() const { return state_->host; }

Result<std::unique_ptr<Engine>> Engine::Create() {
  InitialiseOnce();
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return Failure(builder.takeError(), "this machine's processor is not known to LLVM");
  builder->setCodeGenOptLevel(llvm::CodeGenOpt::Default);
  // Variables and the runtime lie farther away than 2 GiB: position-independent code reaches them
  // by a table.
  builder->setRelocationModel(llvm::Reloc::PIC_);
  auto state = std::make_unique<State>();
  const std::string features = builder->getFeatures().getString();
  state->host.avx512f = features.find("+avx512f") != std::string::npos;
  state->host.avx512fp16 = features.find("+avx512fp16") != std::string::npos;
  auto machine = builder->createTargetMachine();
  if (!machine) return Failure(machine.takeError(), "no code generator for this machine");
  state->machine = std::move(*machine);
  auto jit =
      llvm::orc::LLJITBuilder()
          .setJITTargetMachineBuilder(*builder)
          .setObjectLinkingLayerCreator(
              [](llvm::orc::ExecutionSession& session,
                 const llvm::Triple&) -> llvm::Expected<std::unique_ptr<llvm::orc::ObjectLayer>> {
                return std::make_unique<llvm::orc::ObjectLinkingLayer>(session);
              })
          .create();
  if (!jit) return Failure(jit.takeError(), "the just-in-time linker does not start");
  state->jit = std::move(*jit);
  state->jit->getExecutionSession().setErrorReporter([](llvm::Error error) {
    LogDebug("software GPU: linker: {}", llvm::toString(std::move(error)));
  });
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(state)));
  for (std::size_t i = 0; i < kRuntimeSymbolCount; ++i)
    CUSPAN_RETURN_IF_ERROR(engine->Define(kRuntimeSymbols[i].name, kRuntimeSymbols[i].address));
  for (const auto helpers : {MathHelpers(), MbarrierHelpers()})
    for (const auto& helper : helpers)
      CUSPAN_RETURN_IF_ERROR(engine->Define(helper.name, helper.address));
  return engine;
}

Status Engine::Define(std::string_view symbol, void* address) {
  auto& jit = *state_->jit;
  const llvm::JITEvaluatedSymbol value(llvm::pointerToJITTargetAddress(address),
                                       llvm::JITSymbolFlags::Exported);
  const auto name = jit.mangleAndIntern(llvm::StringRef(symbol.data(), symbol.size()));
  if (auto error = jit.getMainJITDylib().define(llvm::orc::absoluteSymbols({{name, value}})))
    return Failure(std::move(error), Format("symbol '{}' can not be defined", symbol));
  return Status::Ok();
}

Result<KernelEntry> Engine::Add(const ptx::Module& module, const analysis::KernelPlan& plan) {
  const auto name = module.functions[plan.functions[0].index].name;
  const std::string what = Format("kernel '{}'", name);
  // Leaked with the module if LLVM fails in the middle.
  auto context = std::make_unique<llvm::LLVMContext>();
  auto emitted = emit::ModuleEmitter(*context, module, plan, state_->host).Emit();
  if (!emitted.ok()) return emitted.status();
  auto object = CompileModule(std::move(*emitted), *state_->machine, what);
  if (!object.ok()) {
    (void)context.release();
    return object.status();
  }
  if (auto error = state_->jit->addObjectFile(std::move(*object)))
    return Failure(std::move(error), what);
  auto address = state_->jit->lookup(emit::EntrySymbol(name));
  if (!address) return Failure(address.takeError(), what);
  return address->toPtr<KernelEntry>();
}

}  // namespace cuspan::softgpu::jit
