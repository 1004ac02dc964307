#include "proxy/softgpu/jit/program.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "common/settings.h"
#include "proxy/ptx/declarations.h"
#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/device_runtime.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/jit/background_compiler.h"
#include "proxy/softgpu/jit/build_code.h"
#include "proxy/softgpu/jit/compile_notice.h"
#include "proxy/softgpu/jit/engine.h"
#include "proxy/softgpu/jit/kernel_cache.h"
#include "proxy/softgpu/jit/kernel_file.h"
#include "proxy/softgpu/jit/kernel_key.h"
#include "proxy/softgpu/jit/parsed_module.h"
#include "proxy/softgpu/rt/stack.h"

namespace cuspan::softgpu {
namespace {

using jit::CodeForm;
using ptx::Space;

// PTX instructions from which a kernel first gets quickly compiled code. Optimised code for a warp
// takes about one millisecond per instruction.
constexpr std::size_t kLargeKernel = 800;
// Limit below which the proxy itself compiles a kernel if the compiler process is unavailable.
constexpr std::size_t kMaxInline = 5000;

const CodeForm kThreadForm{std::nullopt, false, true}, kQuickForm{std::nullopt, false, false};

// Age from which a begun compilation belongs to an earlier run.
constexpr std::chrono::seconds kOtherRun{60};

// Largest frames of quick code, in bytes. Threads waiting for each other have a stack each.
constexpr std::size_t kMaxFiberFrames = std::size_t{64} << 10;
constexpr std::size_t kMaxFrames = kLargestStack / 2;

class LoadedProgram final : public Program {
 public:
  LoadedProgram(std::unique_ptr<jit::ParsedModule> parsed, const ProgramOptions& options)
      : parsed_(std::move(parsed)),
        module_(parsed_->module()),
        options_(options),
        cache_(options.cache),
        function_marks_(module_.functions.size()) {}
  ~LoadedProgram() override {
    if (options_.background != nullptr) options_.background->Forget(this);
  }

  // Called first after construction. If it fails, nothing else may be called.
  Status Initialise() {
    for (const auto& variable : module_.variables) {
      const bool is_data = variable.space == Space::kGlobal || variable.space == Space::kConst;
      if (is_data && !variable.external) CUSPAN_RETURN_IF_ERROR(AddVariable(variable));
    }
    return Status::Ok();
  }

  Status Check(bool linked) override {
    const std::lock_guard lock(mutex_);
    return parsed_->Check(linked);
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

  bool Bind(std::string_view name, void* address) override {
    const std::lock_guard lock(mutex_);
    if (linker_ != nullptr) return false;
    addresses_[std::string(name)] = address;
    return true;
  }

  Result<CompiledKernel> Compile(std::string_view name, const BlockShape& shape) override {
    std::unique_lock lock(mutex_);
    CUSPAN_ASSIGN_OR_RETURN(auto found, StateOf(name));
    const Result<CompiledKernel>& compiled = CodeFor(*found, FormFor(shape));
    if (!compiled.ok()) return compiled;
    if (found->waits_until) {
      const auto ended = [&] { return compiled->later == nullptr || compiled->later->ended(); };
      came_.wait_until(lock, *found->waits_until, ended);
      found->waits_until.reset();
    }
    return compiled->Best();
  }

 private:
  struct KernelState {
    std::uint32_t function = 0;  // Index in Module::functions.
    CacheKey key;                // Set if there is a cache.
    KernelInfo info;
    std::optional<analysis::KernelPlan> plan;                // Unset if info was cached.
    std::map<std::string, Result<CompiledKernel>> compiled;  // Key: name of the form.
    // Results waiting for optimised code for one thread, each with the form to compile next. If not
    // empty, this code is being compiled.
    std::vector<std::pair<CodeForm, std::shared_ptr<LaterCode>>> waiting;
    std::set<std::string> given_up;  // Names of forms taking too long to compile.
    // Until then, the launch starting the background compilations waits for them.
    std::optional<std::chrono::steady_clock::time_point> waits_until;
  };

  // Block shapes with the same form share their code: code depends only on the form and the module.
  CodeForm FormFor(const BlockShape& shape) const {
    CodeForm form;
    form.check_accesses = options_.check_accesses;
    // Checks report the thread, so checked code is for one thread.
    form.interleaved = options_.interleaved;
    if (form.check_accesses || form.interleaved || options_.model == ExecutionModel::kThread)
      return form;
    form.always_warps = options_.model == ExecutionModel::kVector;
    form.warps = shape.x != 0 ? analysis::LayoutOf(shape.x, shape.y, shape.z)
                              : analysis::WarpLayout{1, false, false};
    return form;
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
        // The address identifying a function is in this program, so it is known now.
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

  Result<KernelState*> StateOf(std::string_view name) {
    CUSPAN_ASSIGN_OR_RETURN(const std::uint32_t index, parsed_->FindKernel(name));
    auto& state = kernels_[index];
    if (state != nullptr) return state.get();
    auto made = std::make_unique<KernelState>();
    made->function = index;
    if (!FindInfo(*made)) {
      CUSPAN_RETURN_IF_ERROR(Plan(*made));
      made->info = Describe(module_.functions[index], *made->plan);
    }
    state = std::move(made);
    return state.get();
  }

  // Loads the kernel's information from the cache; returns false if it is missing.
  bool FindInfo(KernelState& state) {
    if (cache_ == nullptr) return false;
    state.key = jit::KeyOfKernel(*parsed_->text(), module_, state.function);
    const auto bytes = cache_->Load(InfoKey(state));
    if (!bytes) return false;
    auto info = jit::ReadInfo(*bytes, module_.functions[state.function].name);
    if (info) state.info = std::move(*info);
    return info.has_value();
  }
  static CacheKey InfoKey(const KernelState& state) {
    return jit::KeyOfVariant(state.key, "information");
  }
  static CacheKey CodeKey(const KernelState& state, const CodeForm& form) {
    return jit::KeyOfVariant(state.key, "code " + form.Name());
  }

  // Parses the kernel and everything reachable.
  Status Plan(KernelState& state) {
    if (state.plan) return Status::Ok();
    CUSPAN_ASSIGN_OR_RETURN(state.plan, parsed_->Plan(state.function));
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
    info.prints = plan.prints;
    info.uses_heap = plan.uses_heap;
    return info;
  }

  // Returns the kernel's code of this form; compiles it at the first call.
  const Result<CompiledKernel>& CodeFor(KernelState& state, const CodeForm& form) {
    const auto [place, added] =
        state.compiled.try_emplace(form.Name(), Status::Internal("not compiled"));
    if (added) place->second = MakeCode(state, form);
    return place->second;
  }

  Result<CompiledKernel> MakeCode(KernelState& state, const CodeForm& form) {
    if (options_.tier != CodeTier::kFirst || !form.optimised) {
      if (auto kept = FromCache(state, form)) return *std::move(kept);
    }
    CUSPAN_RETURN_IF_ERROR(Plan(state));
    const bool plain = form.optimised && !form.check_accesses && !form.interleaved;
    if (plain && options_.tier != CodeTier::kLast) {
      if (auto quick = StartQuickly(state, form)) return *std::move(quick);
    }
    const CompileNotice notice(
        state.info.name, form.Name(), jit::InstructionCount(*state.plan),
        cache_ != nullptr ? CompileNotice::For::kProgramAndCache : CompileNotice::For::kProgram);
    CUSPAN_ASSIGN_OR_RETURN(const auto code, jit::BuildCode(module_, *state.plan, form));
    auto linked = Link(state, code);
    if (linked.ok()) Keep(state, form, code);
    return linked;
  }

  std::optional<CompiledKernel> FromCache(const KernelState& state, const CodeForm& form) {
    if (cache_ == nullptr) return std::nullopt;
    const auto bytes = cache_->Load(CodeKey(state, form));
    const auto code = bytes ? jit::ReadCode(*bytes) : std::nullopt;
    if (!code) return std::nullopt;
    auto linked = Link(state, *code);
    return linked.ok() ? std::optional(*std::move(linked)) : std::nullopt;
  }

  // Returns quickly available code for a large kernel, and compiles better code in the background:
  // optimised code for one thread, then for `form`. Returns nullopt if this is not wanted or not
  // possible.
  std::optional<CompiledKernel> StartQuickly(KernelState& state, const CodeForm& form) {
    const bool only = options_.tier == CodeTier::kFirst;
    if (!only &&
        (options_.background == nullptr || jit::InstructionCount(*state.plan) < kLargeKernel))
      return std::nullopt;
    // Recursion needs an unknown amount of stack, and frames of quick code are larger.
    if (jit::IsRecursive(module_, *state.plan)) return std::nullopt;
    const auto thread = form.warps && !only ? ThreadCode(state) : std::nullopt;
    const Result<CompiledKernel> start = thread ? *thread : CodeFor(state, kQuickForm);
    if (!start.ok() || start->frame_bytes > (start->needs_fibers ? kMaxFiberFrames : kMaxFrames))
      return std::nullopt;
    CompiledKernel started = *start;
    if (only || IsGivenUp(state, thread ? form : kThreadForm)) return started;
    const bool again = BegunBefore(state, form);
    if (again) state.waits_until = std::chrono::steady_clock::now() + options_.patience;
    auto later = std::make_shared<LaterCode>();
    started.later = later;
    if (thread) {
      if (!CompileLater(state, form, later)) return std::nullopt;
      return started;
    }
    if (state.waiting.empty() && !CompileLater(state, kThreadForm, nullptr)) return std::nullopt;
    state.waiting.emplace_back(form, later);
    return started;
  }

  // True if this run, or an earlier one, found the compilation to take too long.
  bool IsGivenUp(const KernelState& state, const CodeForm& form) const {
    if (state.given_up.contains(form.Name())) return true;
    return cache_ != nullptr && cache_->Load(GivenUpKey(state, form)).has_value();
  }
  void GiveUp(KernelState& state, const CodeForm& form) {
    state.given_up.insert(form.Name());
    if (cache_ != nullptr) cache_->Store(GivenUpKey(state, form), "given up");
  }
  static CacheKey GivenUpKey(const KernelState& state, const CodeForm& form) {
    return jit::KeyOfVariant(state.key, "given up " + form.Name());
  }

  // Optimised code for one thread, if already available.
  std::optional<CompiledKernel> ThreadCode(KernelState& state) {
    const auto found = state.compiled.find(kThreadForm.Name());
    if (found != state.compiled.end()) {
      const bool there = found->second.ok() && found->second->later == nullptr;
      return there ? std::optional(*found->second) : std::nullopt;
    }
    auto kept = FromCache(state, kThreadForm);
    if (kept) state.compiled.emplace(kThreadForm.Name(), *kept);
    return kept;
  }

  // True if an earlier run began the same compilation, but ended before it was done. Then this run
  // waits once, so that the next run need not begin again. It waits only once, because the
  // compilation may take too long.
  bool BegunBefore(const KernelState& state, const CodeForm& form) {
    if (cache_ == nullptr) return false;
    const CacheKey key = jit::KeyOfVariant(state.key, "begun " + form.Name());
    constexpr std::int64_t kWaited = 0;
    const std::int64_t now = std::time(nullptr);
    const auto store = [&](std::int64_t time) {
      cache_->Store(key, {reinterpret_cast<const char*>(&time), sizeof time});
    };
    const auto bytes = cache_->Load(key);
    std::int64_t begun = kWaited;
    if (!bytes || bytes->size() != sizeof begun) {
      store(now);
      return false;
    }
    std::memcpy(&begun, bytes->data(), sizeof begun);
    // A process for another device of this run may have begun it just now.
    if (begun == kWaited || now - begun < kOtherRun.count()) return false;
    store(kWaited);
    return true;
  }

  // Compiles the kernel in `form` in the background, for `later` or for all waiting launches.
  // Returns false if this is not possible.
  bool CompileLater(KernelState& state, const CodeForm& form, std::shared_ptr<LaterCode> later) {
    jit::BackgroundCompiler::Job job;
    job.owner = this;
    job.task = {parsed_->text(), state.info.name, form, jit::BackgroundCompiler::kLimit};
    job.instructions = jit::InstructionCount(*state.plan);
    if (state.waits_until) job.whom = CompileNotice::For::kProgramAndCache;
    job.done = [this, &state, form, later = std::move(later)](Result<jit::KernelCode> code) {
      // Without a compiler process, compiles on this thread, as no launch waits for it. Large
      // kernels are excluded, because the compilation cannot be stopped.
      if (!code.ok() && code.status().code() == StatusCode::kUnavailable &&
          jit::InstructionCount(*state.plan) < kMaxInline) {
        LogWarn("software GPU: {}; the proxy compiles it itself", code.status().message());
        code = jit::BuildCode(module_, *state.plan, form, false);
      }
      const std::lock_guard lock(mutex_);
      Result<CompiledKernel> linked = code.ok() ? Link(state, *code) : code.status();
      if (linked.ok()) Keep(state, form, *code);
      if (linked.status().code() == StatusCode::kExhausted) GiveUp(state, form);
      if (form.warps)
        TakeWarpCode(state, form, linked, *later);
      else
        TakeThreadCode(state, linked);
      came_.notify_all();
    };
    return options_.background->Add(std::move(job));
  }

  void TakeThreadCode(KernelState& state, const Result<CompiledKernel>& code) {
    for (const auto& [form, waiting] : std::exchange(state.waiting, {})) {
      if (code.ok()) waiting->Provide(*code);
      // If code for a thread takes too long, code for a warp takes even longer.
      const bool goes_on =
          form.warps && code.status().code() != StatusCode::kExhausted && !IsGivenUp(state, form);
      if (!goes_on || !CompileLater(state, form, waiting)) waiting->End();
    }
    if (code.ok()) {
      LogInfo("software GPU: kernel {} has optimised code for a thread now", state.info.name);
      state.compiled.insert_or_assign(kThreadForm.Name(), code);
    } else {
      LogWarn("software GPU: {}; the kernel continues in unoptimised code",
              code.status().message());
    }
  }

  void TakeWarpCode(KernelState& state, const CodeForm& form, const Result<CompiledKernel>& code,
                    LaterCode& later) {
    if (code.ok()) {
      LogInfo("software GPU: kernel {} has optimised code for a warp now", state.info.name);
      later.Provide(*code);
    } else {
      LogInfo("software GPU: kernel {} continues thread by thread: {}", state.info.name,
              code.status().message());
      // Stored to save the next run this attempt.
      if (code.status().code() == StatusCode::kUnsupported && cache_ != nullptr) {
        if (const auto thread = cache_->Load(CodeKey(state, kThreadForm)))
          cache_->Store(CodeKey(state, form), *thread);
      }
    }
    later.End();
  }

  void Keep(const KernelState& state, const CodeForm& form, const jit::KernelCode& code) {
    if (cache_ == nullptr) return;
    cache_->Store(CodeKey(state, form), jit::WriteCode(code));
    cache_->Store(InfoKey(state), jit::WriteInfo(state.info));
  }

  Result<CompiledKernel> Link(const KernelState& state, const jit::KernelCode& code) {
    if (linker_ == nullptr) {
      CUSPAN_ASSIGN_OR_RETURN(
          linker_, jit::Linker::Create([this](std::string_view name) { return AddressOf(name); }));
    }
    CUSPAN_ASSIGN_OR_RETURN(auto entry,
                            linker_->Link(code.object, emit::EntrySymbol(state.info.name)));
    return CompiledKernel{reinterpret_cast<KernelEntry>(entry), code.needs_fibers, code.warps,
                          code.frame_bytes, nullptr};
  }

  // Address of a symbol used by compiled code, or null.
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

  const std::unique_ptr<jit::ParsedModule> parsed_;
  const ptx::Module& module_;
  const ProgramOptions options_;
  KernelCache* const cache_;
  std::vector<ModuleVariable> variables_;
  std::vector<char> function_marks_;  // Address of element i identifies function i.

  std::condition_variable came_;  // Background code arrived.
  std::mutex mutex_;              // Guards the members below.
  std::unordered_map<std::uint32_t, std::unique_ptr<KernelState>> kernels_;
  std::map<std::string, void*, std::less<>> addresses_;
  std::unique_ptr<jit::Linker> linker_;
};

}  // namespace

ProgramOptions ProgramOptions::OfSettings() {
  ProgramOptions options;
  options.cache = KernelCache::OfProcess();
  options.check_accesses = SettingText(settings::kSoftCheck) != std::string_view("off");
  options.interleaved = SettingText(settings::kSoftSchedule) != std::string_view("barrier");
  const std::string_view model = SettingText(settings::kSoftModel);
  if (model == "vector") options.model = ExecutionModel::kVector;
  if (model == "thread") options.model = ExecutionModel::kThread;
  const std::string_view tier = SettingText(settings::kSoftTier);
  if (tier == "first") options.tier = CodeTier::kFirst;
  if (tier == "last") options.tier = CodeTier::kLast;
  options.background = jit::BackgroundCompiler::OfProcess();
  return options;
}

Result<std::unique_ptr<Program>> Program::Load(std::string ptx, const ProgramOptions& options) {
  ProgramOptions own = options;
  // Code must not be cached if builds cannot be distinguished.
  if (jit::BuildName().empty()) {
    own.cache = nullptr;
    own.background = nullptr;
  }
  CUSPAN_ASSIGN_OR_RETURN(
      auto parsed, jit::ParsedModule::Parse(std::make_shared<const std::string>(std::move(ptx))));
  auto program = std::make_unique<LoadedProgram>(std::move(parsed), own);
  CUSPAN_RETURN_IF_ERROR(program->Initialise());
  return std::unique_ptr<Program>(std::move(program));
}

Result<std::unique_ptr<Program>> Program::Load(std::string ptx) {
  return Load(std::move(ptx), ProgramOptions::OfSettings());
}

}  // namespace cuspan::softgpu
