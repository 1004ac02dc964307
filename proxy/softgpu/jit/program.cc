#include "proxy/softgpu/jit/program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/jit/engine.h"
#include "proxy/softgpu/ptx/declarations.h"
#include "proxy/softgpu/ptx/index.h"
#include "proxy/softgpu/ptx/module.h"
#include "proxy/softgpu/ptx/parser.h"

namespace cuspan::softgpu {
namespace {

using ptx::Space;

class LoadedProgram final : public Program {
 public:
  explicit LoadedProgram(std::string text) : text_(std::move(text)) {}

  // The first step after construction; nothing else may be called when it fails.
  Status Initialise() {
    auto module = ptx::IndexModule(text_);
    if (!module.ok()) return module.status();
    module_ = std::move(*module);
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

  Result<const KernelInfo*> Kernel(std::string_view name) override {
    const std::lock_guard lock(mutex_);
    auto state = StateOf(name);
    if (!state.ok()) return state.status();
    return &(*state)->info;
  }

  void Bind(std::string_view name, void* address) override {
    const std::lock_guard lock(mutex_);
    addresses_[std::string(name)] = address;
  }

  Result<KernelEntry> Compile(std::string_view name) override {
    const std::lock_guard lock(mutex_);
    auto found = StateOf(name);
    if (!found.ok()) return found.status();
    KernelState& state = **found;
    if (state.entry == nullptr && state.failure.ok()) {
      auto entry = CompileNow(state);
      if (entry.ok()) {
        state.entry = *entry;
      } else {
        state.failure = entry.status();
      }
    }
    if (!state.failure.ok()) return state.failure;
    return state.entry;
  }

 private:
  struct KernelState {
    KernelInfo info;
    analysis::KernelPlan plan;
    KernelEntry entry = nullptr;
    Status failure;  // Of compiling it.
  };

  Status AddVariable(const ptx::Variable& variable) {
    ModuleVariable out;
    out.name = variable.name;
    out.bytes = variable.bytes;
    out.alignment = variable.alignment;
    out.constant = variable.space == Space::kConst;
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
      auto parsed = ptx::ParseBody(text_, module_.functions[index]);
      if (!parsed.ok()) return parsed.status();
      body = std::make_unique<ptx::Body>(std::move(*parsed));
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
    auto plan =
        analysis::PlanKernel(module_, found->second, [this](std::uint32_t i) { return BodyOf(i); });
    if (!plan.ok()) return plan.status();
    state = std::make_unique<KernelState>();
    state->plan = std::move(*plan);
    state->info = Describe(module_.functions[found->second], state->plan);
    return state.get();
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

  Result<KernelEntry> CompileNow(const KernelState& state) {
    if (engine_ == nullptr) {
      auto engine = jit::Engine::Create();
      if (!engine.ok()) return engine.status();
      for (const auto& variable : variables_) {
        const auto address = addresses_.find(variable.name);
        if (address == addresses_.end())
          return Status::Internal("variable '{}' was not bound before kernel '{}' was compiled",
                                  variable.name, state.info.name);
        CUSPAN_RETURN_IF_ERROR(
            (*engine)->Define(emit::VariableSymbol(variable.name), address->second));
      }
      for (std::size_t i = 0; i < module_.functions.size(); ++i) {
        const auto symbol = emit::FunctionSymbol(module_.functions[i].name);
        CUSPAN_RETURN_IF_ERROR((*engine)->Define(symbol, &function_marks_[i]));
      }
      engine_ = std::move(*engine);
    }
    return engine_->Add(module_, state.plan);
  }

  const std::string text_;
  ptx::Module module_;
  std::vector<ModuleVariable> variables_;
  std::vector<char> function_marks_;  // The address of element i stands for function i.

  std::mutex mutex_;  // Guards what follows.
  std::vector<std::unique_ptr<ptx::Body>> bodies_;
  std::unordered_map<std::uint32_t, std::unique_ptr<KernelState>> kernels_;
  std::unordered_map<std::string, void*> addresses_;
  std::unique_ptr<jit::Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<Program>> Program::Load(std::string ptx) {
  auto program = std::make_unique<LoadedProgram>(std::move(ptx));
  CUSPAN_RETURN_IF_ERROR(program->Initialise());
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace cuspan::softgpu
