#include "proxy/softgpu/jit/engine.h"

#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/MapperJITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/MemoryMapper.h>
#include <llvm/ExecutionEngine/Orc/ObjectFileInterface.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Object/ELF.h>
#include <llvm/Support/DataExtractor.h>
#include <llvm/Support/TargetSelect.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/log.h"
#include "common/settings.h"
#include "proxy/softgpu/jit/helpers.h"
#include "proxy/softgpu/jit/pipeline.h"
#include "proxy/softgpu/rt/code_ranges.h"

namespace cuspan::softgpu::jit {
namespace {

// Granularity of mapping memory for code, in bytes.
constexpr std::size_t kCodeGranularity = 4096;

// Converts an LLVM error to a Status.
Status Failure(llvm::Error error, std::string_view what) {
  return Status::Internal("software GPU: {}: {}", what, llvm::toString(std::move(error)));
}

// A code generator is not thread-safe, so each compilation has its own.
Result<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(Effort effort, emit::Host* host) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return Failure(builder.takeError(), "this machine's processor is not known to LLVM");
  builder->setCodeGenOptLevel(effort == Effort::kQuick ? llvm::CodeGenOpt::None
                                                       : llvm::CodeGenOpt::Default);
  builder->getOptions().EmitStackSizeSection = effort == Effort::kQuick;
  // Variables and the runtime are farther away than 2 GiB: position-independent code accesses them
  // through a table.
  builder->setRelocationModel(llvm::Reloc::PIC_);
  if (SettingText(settings::kSoftInstructions) == std::string_view("avx2")) {
    builder->setCPU("haswell");  // First processor with AVX2, FMA and F16C.
    builder->getFeatures() = llvm::SubtargetFeatures();
  }
  const std::string features = builder->getFeatures().getString();
  host->avx512f = features.find("+avx512f") != std::string::npos;
  host->avx512fp16 = features.find("+avx512fp16") != std::string::npos;
  auto machine = builder->createTargetMachine();
  if (!machine) return Failure(machine.takeError(), "no code generator for this machine");
  return std::move(*machine);
}

// Symbols common to all programs.
const std::unordered_map<std::string_view, void*>& RuntimeAddresses() {
  static const auto* const addresses = [] {
    auto* all = new std::unordered_map<std::string_view, void*>;
    for (std::size_t i = 0; i < kRuntimeSymbolCount; ++i)
      all->emplace(kRuntimeSymbols[i].name, kRuntimeSymbols[i].address);
    for (const auto helpers : {MathHelpers(), MbarrierHelpers()})
      for (const auto& helper : helpers) all->emplace(helper.name, helper.address);
    return all;
  }();
  return *addresses;
}

// Resolves undefined symbols of objects for the linker.
class Addresses final : public llvm::orc::DefinitionGenerator {
 public:
  explicit Addresses(const Linker::Resolver& resolver) : resolver_(resolver) {}

  llvm::Error tryToGenerate(llvm::orc::LookupState&, llvm::orc::LookupKind,
                            llvm::orc::JITDylib& library, llvm::orc::JITDylibLookupFlags,
                            const llvm::orc::SymbolLookupSet& wanted) override {
    llvm::orc::SymbolMap found;
    for (const auto& [symbol, flags] : wanted) {
      const std::string_view name((*symbol).data(), (*symbol).size());
      const auto known = RuntimeAddresses().find(name);
      void* const address = known != RuntimeAddresses().end() ? known->second : resolver_(name);
      if (address != nullptr)
        found[symbol] = llvm::JITEvaluatedSymbol(llvm::pointerToJITTargetAddress(address),
                                                 llvm::JITSymbolFlags::Exported);
    }
    return found.empty() ? llvm::Error::success()
                         : library.define(llvm::orc::absoluteSymbols(std::move(found)));
  }

 private:
  const Linker::Resolver& resolver_;
};

// Records the address ranges of linked code.
class CodeNotes final : public llvm::orc::ObjectLinkingLayer::Plugin {
 public:
  explicit CodeNotes(std::vector<CodeRange>* ranges) : ranges_(ranges) {}

  void modifyPassConfig(llvm::orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& passes) override {
    passes.PostAllocationPasses.push_back([this](llvm::jitlink::LinkGraph& graph) {
      for (auto& section : graph.sections()) {
        const llvm::jitlink::SectionRange range(section);
        using llvm::BitmaskEnumDetail::operator&;
        const bool is_code =
            (section.getMemProt() & llvm::orc::MemProt::Exec) != llvm::orc::MemProt::None;
        if (is_code && !range.empty())
          ranges_->emplace_back(range.getStart().getValue(), range.getEnd().getValue());
      }
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility&) override {
    return llvm::Error::success();
  }
  llvm::Error notifyRemovingResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey) override {
    return llvm::Error::success();
  }
  void notifyTransferringResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey,
                                   llvm::orc::ResourceKey) override {}

 private:
  std::vector<CodeRange>* const ranges_;
};

// Returns the sum of the frame sizes of all functions in an object file compiled with kQuick.
// Removes the relocations of its table of sizes: the linker refuses them.
Result<std::uint32_t> ExtractFrameBytes(std::string* object) {
  using File = llvm::object::ELF64LEFile;
  const auto failure = [](llvm::Error error) {
    return Failure(std::move(error), "an object file");
  };
  auto file = File::create(*object);
  if (!file) return failure(file.takeError());
  auto sections = file->sections();
  if (!sections) return failure(sections.takeError());
  std::uint64_t sum = 0;
  for (const auto& section : *sections) {
    auto name = file->getSectionName(section);
    if (!name) return failure(name.takeError());
    // Relocations of sections not loaded make the linker fail (LLVM 16).
    if (*name == ".rela.stack_sizes")
      const_cast<File::Elf_Shdr&>(section).sh_type = llvm::ELF::SHT_NULL;
    if (*name != ".stack_sizes") continue;
    auto content = file->getSectionContents(section);
    if (!content) return failure(content.takeError());
    // Address of each function, not known yet, and the size of its frame.
    const llvm::DataExtractor data(*content, true, sizeof(void*));
    llvm::DataExtractor::Cursor at(0);
    while (at && !data.eof(at)) {
      data.getAddress(at);
      sum += data.getULEB128(at);
    }
    if (auto error = at.takeError()) return failure(std::move(error));
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, 0xffffffff));
}

}  // namespace

Result<ObjectFile> CompileKernel(const ptx::Module& module, const analysis::KernelPlan& plan,
                                 const analysis::WarpPlan* warps,
                                 const emit::ModuleEmitter::ReconvergencePoints& points,
                                 const CodeOptions& options) {
  const std::string what = Format("kernel '{}'", module.functions[plan.functions[0].index].name);
  emit::Host host;
  host.check_accesses = options.check_accesses;
  host.interleaved = options.interleaved;
  const Effort effort = options.effort;
  CUSPAN_ASSIGN_OR_RETURN(auto machine, MakeTargetMachine(effort, &host));
  // Leaked together with the module after a fatal error of LLVM.
  auto context = std::make_unique<llvm::LLVMContext>();
  CUSPAN_ASSIGN_OR_RETURN(auto emitted,
                          emit::ModuleEmitter(*context, module, plan, warps, points, host).Emit());
  auto object = CompileModule(std::move(emitted), *machine, effort == Effort::kOptimised, what);
  if (!object.ok()) {
    (void)context.release();
    return object.status();
  }
  ObjectFile file;
  file.bytes.assign((*object)->getBufferStart(), (*object)->getBufferSize());
  if (effort == Effort::kQuick) {
    CUSPAN_ASSIGN_OR_RETURN(file.frame_bytes, ExtractFrameBytes(&file.bytes));
  }
  return file;
}

struct Linker::State {
  explicit State(Resolver wanted, std::unique_ptr<llvm::orc::ExecutorProcessControl> process)
      : resolver(std::move(wanted)), session(std::move(process)), layer(session) {
    layer.addPlugin(std::make_unique<CodeNotes>(&code));
  }
  ~State() {
    if (auto error = session.endSession())
      LogDebug("software GPU: linker: {}", llvm::toString(std::move(error)));
  }

  const Resolver resolver;
  llvm::orc::ExecutionSession session;
  llvm::orc::ObjectLinkingLayer layer;
  std::uint64_t libraries = 0;  // One for each object.
  std::vector<CodeRange> code;
};

Linker::Linker(std::unique_ptr<State> state) : state_(std::move(state)) {}
Linker::~Linker() = default;

Result<std::unique_ptr<Linker>> Linker::Create(Resolver resolver) {
  // The default memory manager of LLVM 16 keeps all code until the process ends.
  using Memory = llvm::orc::MapperJITLinkMemoryManager;
  auto memory = Memory::CreateWithMapper<llvm::orc::InProcessMemoryMapper>(kCodeGranularity);
  if (!memory) return Failure(memory.takeError(), "the linker does not start");
  auto process =
      llvm::orc::SelfExecutorProcessControl::Create(nullptr, nullptr, std::move(*memory));
  if (!process) return Failure(process.takeError(), "the linker does not start");
  auto state = std::make_unique<State>(std::move(resolver), std::move(*process));
  state->session.setErrorReporter([](llvm::Error error) {
    LogDebug("software GPU: linker: {}", llvm::toString(std::move(error)));
  });
  return std::unique_ptr<Linker>(new Linker(std::move(state)));
}

Result<void*> Linker::Link(std::string_view object, const std::string& symbol) {
  auto& session = state_->session;
  auto& library = session.createBareJITDylib(Format("object{}", state_->libraries++));
  library.addGenerator(std::make_unique<Addresses>(state_->resolver));
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()),
                                                     library.getName());
  if (auto error = state_->layer.add(library, std::move(buffer)))
    return Failure(std::move(error), symbol);
  auto address = session.lookup({&library}, session.intern(symbol));
  if (!address) return Failure(address.takeError(), symbol);
  return llvm::jitTargetAddressToPointer<void*>(address->getAddress());
}

}  // namespace cuspan::softgpu::jit
