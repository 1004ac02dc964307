#include "proxy/softgpu/jit/program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "common/log.h"
#include "common/settings.h"
#include "proxy/ptx/declarations.h"
#include "proxy/ptx/index.h"
#include "proxy/ptx/module.h"
#include "proxy/ptx/parser.h"
#include "proxy/softgpu/analysis/device_runtime.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/split.h"
#include "proxy/softgpu/analysis/warp_plan.h"
#include "proxy/softgpu/jit/compile_notice.h"
#include "proxy/softgpu/jit/engine.h"
#include "proxy/softgpu/jit/kernel_cache.h"
#include "proxy/softgpu/jit/kernel_file.h"
#include "proxy/softgpu/jit/kernel_key.h"

namespace cuspan::softgpu {
namespace {

using ptx::Space;

class LoadedProgram final : public Program {
 public:
  LoadedProgram(std::string text, const ProgramOptions& options)
      : text_(std::move(text)), options_(options), cache_(options.cache) {}

  // The first step after construction; nothing else may be called when it fails.
  Status Initialise() {
    CUSPAN_ASSIGN_OR_RETURN(module_, ptx::IndexModule(text_));
    function_marks_.resize(module_.functions.size());
    bodies_.resize(module_.functions.size());
    for (const auto& variable : module_.variables) {
      const bool is_data = variable.space == Space::kGlobal || variable.space == Space::kConst;
      if (is_data && !variable.external) CUSPAN_RETURN_IF_ERROR(AddVariable(variable));
    }
    return Status::Ok();
  }

  std::uint32_t ptx_version() const override { return module_.version; }
  std::uint32_t target() const override { return module_.target; }
  const std::vector<ModuleVariable>& variables() const override { return variables_; }

  std::vector<std::string> kernel_names() const override {
    std::vector<std::string> names;
    for (const auto& function : module_.functions)
      if (function.entry && function.defined) names.emplace_back(function.name);
    return names;
  }

  bool launches_kernels() const override {
    return module_.FindFunction(analysis::kDeviceLaunch) != nullptr;
  }

  std::optional<std::pair<std::string, std::uint32_t>> KernelAt(
      const void* address) const override {
    const auto index =
        static_cast<std::size_t>(std::bit_cast<std::uint64_t>(address) -
                                 std::bit_cast<std::uint64_t>(function_marks_.data()));
    if (index >= module_.functions.size()) return std::nullopt;
    const ptx::Function& function = module_.functions[index];
    if (!function.entry || !function.defined) return std::nullopt;
    std::uint64_t end = 0;
    for (const auto& parameter : function.signature.parameters)
      end = ptx::AlignUp(end, parameter.alignment) + parameter.bytes;
    return std::pair(std::string(function.name), static_cast<std::uint32_t>(end));
  }

  Result<const KernelInfo*> Kernel(std::string_view name) override {
    const std::lock_guard lock(mutex_);
    CUSPAN_ASSIGN_OR_RETURN(auto state, StateOf(name));
    return &state->info;
  }

  void Bind(std::string_view name, void* address) override {
    const std::lock_guard lock(mutex_);
    addresses_[std::string(name)] = address;
  }

  Result<CompiledKernel> Compile(std::string_view name, const BlockShape& shape) override {
    const std::lock_guard lock(mutex_);
    CUSPAN_ASSIGN_OR_RETURN(auto found, StateOf(name));
    KernelState& state = *found;
    const auto [place, added] =
        state.compiled.try_emplace(VariantFor(shape), Status::Internal("not compiled"));
    if (added) place->second = CompileNow(state, place->first, WarpLayoutFor(shape));
    return place->second;
  }

 private:
  struct KernelState {
    std::uint32_t function = 0;  // In Module::functions.
    CacheKey key;                // Where there is a cache.
    KernelInfo info;
    std::optional<analysis::KernelPlan> plan;                // Not when the cache had the kernel.
    std::map<std::string, Result<CompiledKernel>> compiled;  // By variant.
  };

  // Blocks of shapes that have the same variant share their code. Names all that the code made
  // by CompileNow depends on besides the module.
  std::string VariantFor(const BlockShape& shape) const {
    if (options_.check_memory) return "thread, checked";
    const auto layout = WarpLayoutFor(shape);
    if (!layout) return "thread";
    return Format("warp {} {} {}", layout->row, layout->full, layout->aligned_x);
  }
  // How warps lie in such blocks; nullopt when each thread is to run on its own.
  std::optional<analysis::WarpLayout> WarpLayoutFor(const BlockShape& shape) const {
    // Checks name the thread, so code with checks is for one thread.
    if (options_.check_memory) return std::nullopt;
    if (options_.model == ExecutionModel::kThread) return std::nullopt;
    if (shape.x != 0) return analysis::LayoutOf(shape.x, shape.y, shape.z);
    return analysis::WarpLayout{1, false, false};
  }

  Status AddVariable(const ptx::Variable& variable) {
    ModuleVariable out;
    out.name = variable.name;
    out.bytes = variable.bytes;
    out.alignment = variable.alignment;
    out.constant = variable.space == Space::kConst;
    out.managed = variable.managed;
    out.initial = variable.initial;
    for (const auto& relocation : variable.relocations) {
      const auto function = module_.function_index.find(relocation.symbol);
      if (function != module_.function_index.end()) {
        // What stands for a function is in this program: its address is known now.
        const auto address = std::bit_cast<std::uint64_t>(&function_marks_[function->second]);
        std::memcpy(out.initial.data() + relocation.offset, &address, sizeof address);
        continue;
      }
      const auto* const target = module_.FindVariable(relocation.symbol);
      if (target == nullptr)
        return Status::Invalid(
            "PTX line {}: the initial value of '{}' names '{}', which is not declared",
            variable.line, variable.name, relocation.symbol);
      if (target->space == Space::kShared || target->external)
        return Status::Unsupported(
            "PTX line {}: the initial value of '{}' is the address of '{}', which is not in this "
            "module's memory",
            variable.line, variable.name, relocation.symbol);
      out.relocations.push_back(
          {relocation.offset, std::string(relocation.symbol), relocation.addend});
    }
    variables_.push_back(std::move(out));
    return Status::Ok();
  }

  Result<const ptx::Body*> BodyOf(std::uint32_t index) {
    auto& body = bodies_[index];
    if (body == nullptr) {
      CUSPAN_ASSIGN_OR_RETURN(auto parsed, ptx::ParseBody(text_, module_.functions[index]));
      body = std::make_unique<ptx::Body>(std::move(parsed));
      analysis::SplitRegisters(body.get());
    }
    return body.get();
  }

  Result<KernelState*> StateOf(std::string_view name) {
    const auto found = module_.function_index.find(name);
    if (found == module_.function_index.end() || !module_.functions[found->second].entry ||
        !module_.functions[found->second].defined)
      return Status::NotFound("the module has no kernel '{}'", name);
    auto& state = kernels_[found->second];
    if (state != nullptr) return state.get();
    auto made = std::make_unique<KernelState>();
    made->function = found->second;
    if (!FindInfo(*made)) {
      CUSPAN_RETURN_IF_ERROR(Plan(*made));
      made->info = Describe(module_.functions[found->second], *made->plan);
    }
    state = std::move(made);
    return state.get();
  }

  // Takes the kernel's information from the cache, if it is there.
  bool FindInfo(KernelState& state) {
    if (cache_ == nullptr) return false;
    state.key = jit::KeyOfKernel(text_, module_, state.function);
    const auto bytes = cache_->Load(InfoKey(state));
    if (!bytes) return false;
    auto info = jit::ReadInfo(*bytes, module_.functions[state.function].name);
    if (info) state.info = std::move(*info);
    return info.has_value();
  }
  static CacheKey InfoKey(const KernelState& state) {
    return jit::KeyOfVariant(state.key, "information");
  }
  static CacheKey CodeKey(const KernelState& state, const std::string& variant) {
    return jit::KeyOfVariant(state.key, "code " + variant);
  }

  // Parses the kernel and all that it may reach.
  Status Plan(KernelState& state) {
    if (state.plan) return Status::Ok();
    CUSPAN_ASSIGN_OR_RETURN(state.plan,
                            analysis::PlanKernel(module_, state.function,
                                                 [this](std::uint32_t i) { return BodyOf(i); }));
    return Status::Ok();
  }

  static KernelInfo Describe(const ptx::Function& function, const analysis::KernelPlan& plan) {
    KernelInfo info;
    info.name = function.name;
    std::uint64_t end = 0;
    for (const auto& parameter : function.signature.parameters) {
      const std::uint64_t offset = ptx::AlignUp(end, parameter.alignment);
      end = offset + parameter.bytes;
      info.parameters.push_back(
          {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(parameter.bytes)});
    }
    info.parameter_bytes = static_cast<std::uint32_t>(end);
    info.static_shared_bytes = plan.static_shared_bytes;
    info.local_bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.local_bytes, 0xffffffff));
    const bool required = function.required_ntid[0] != 0;
    const auto* const extent = required ? function.required_ntid : function.max_ntid;
    if (extent[0] != 0) {
      const std::uint64_t threads = std::uint64_t{extent[0]} * extent[1] * extent[2];
      info.max_threads =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, info.max_threads));
    }
    for (int i = 0; i < 3; ++i) info.required_ntid[i] = function.required_ntid[i];
    info.needs_fibers = plan.needs_fibers;
    return info;
  }

  Result<CompiledKernel> CompileNow(KernelState& state, const std::string& variant,
                                    const std::optional<analysis::WarpLayout>& layout) {
    if (cache_ != nullptr) {
      if (const auto bytes = cache_->Load(CodeKey(state, variant))) {
        if (const auto code = jit::ReadCode(*bytes)) {
          auto linked = Link(state, *code);
          if (linked.ok()) return linked;
        }
      }
    }
    const CompileNotice notice(state.info.name, cache_ != nullptr);
    CUSPAN_RETURN_IF_ERROR(Plan(state));
    std::optional<analysis::WarpPlan> warps;
    if (layout) {
      std::string why;
      warps = analysis::PlanWarps(module_, *state.plan, *layout, &why);
      if (!warps)
        LogInfo("software GPU: kernel {} runs thread by thread: {}", state.info.name, why);
    }
    auto object =
        jit::CompileKernel(module_, *state.plan, warps ? &*warps : nullptr, options_.check_memory);
    if (!object.ok() && warps) {
      LogInfo("software GPU: kernel {} runs thread by thread: {}", state.info.name,
              object.status().message());
      warps.reset();
      object = jit::CompileKernel(module_, *state.plan, nullptr, options_.check_memory);
    }
    if (!object.ok()) return object.status();
    jit::KernelCode code;
    code.properties.needs_fibers = warps ? warps->needs_fibers : state.plan->needs_fibers;
    code.properties.warps = warps.has_value();
    code.object = std::move(*object);
    auto linked = Link(state, code);
    if (linked.ok() && cache_ != nullptr) {
      cache_->Store(CodeKey(state, variant), jit::WriteCode(code));
      cache_->Store(InfoKey(state), jit::WriteInfo(state.info));
    }
    return linked;
  }

  Result<CompiledKernel> Link(const KernelState& state, const jit::KernelCode& code) {
    if (linker_ == nullptr) {
      CUSPAN_ASSIGN_OR_RETURN(
          linker_, jit::Linker::Create([this](std::string_view name) { return AddressOf(name); }));
    }
    CUSPAN_ASSIGN_OR_RETURN(auto entry,
                            linker_->Link(code.object, emit::EntrySymbol(state.info.name)));
    CompiledKernel compiled = code.properties;
    compiled.entry = reinterpret_cast<KernelEntry>(entry);
    return compiled;
  }

  // Of a symbol that compiled code names; null when there is none.
  void* AddressOf(std::string_view symbol) {
    if (const auto name = emit::NameOfVariableSymbol(symbol)) {
      const auto found = addresses_.find(*name);
      return found == addresses_.end() ? nullptr : found->second;
    }
    if (const auto name = emit::NameOfFunctionSymbol(symbol)) {
      const auto found = module_.function_index.find(*name);
      return found == module_.function_index.end() ? nullptr : &function_marks_[found->second];
    }
    return nullptr;
  }

  const std::string text_;
  const ProgramOptions options_;
  KernelCache* const cache_;
  ptx::Module module_;
  std::vector<ModuleVariable> variables_;
  std::vector<char> function_marks_;  // The address of element i stands for function i.

  std::mutex mutex_;  // Guards what follows.
  std::vector<std::unique_ptr<ptx::Body>> bodies_;
  std::unordered_map<std::uint32_t, std::unique_ptr<KernelState>> kernels_;
  std::map<std::string, void*, std::less<>> addresses_;
  std::unique_ptr<jit::Linker> linker_;
};

}  // namespace

ProgramOptions ProgramOptions::OfSettings() {
  ProgramOptions options;
  options.cache = KernelCache::OfProcess();
  options.check_memory = SettingText(settings::kSoftCheck) == std::string_view("memory");
  const std::string_view model = SettingText(settings::kSoftModel);
  if (model == "vector") options.model = ExecutionModel::kVector;
  if (model == "thread") options.model = ExecutionModel::kThread;
  return options;
}

Result<std::unique_ptr<Program>> Program::Load(std::string ptx, const ProgramOptions& options) {
  ProgramOptions own = options;
  // Code that can not be told from another build's must not be kept.
  if (!jit::BuildIsKnown()) own.cache = nullptr;
  auto program = std::make_unique<LoadedProgram>(std::move(ptx), own);
  CUSPAN_RETURN_IF_ERROR(program->Initialise());
  return std::unique_ptr<Program>(std::move(program));
}

Result<std::unique_ptr<Program>> Program::Load(std::string ptx) {
  return Load(std::move(ptx), ProgramOptions::OfSettings());
}

}  // namespace cuspan::softgpu
