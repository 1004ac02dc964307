#include "proxy/slicing/kernel_needs.h"

#include <set>
#include <string>
#include <utility>

#include "proxy/ptx/lexer.h"
#include "proxy/ptx/parser.h"
#include "proxy/slicing/slice_ptx.h"

namespace cuspan::slicing {
namespace {

using ptx::SpecialRegister;

// Functions that every driver has, and that do the same in each module of a context.
constexpr std::string_view kOfTheDriver[] = {"vprintf", "__assertfail", "malloc", "free"};

bool IsOfTheDriver(std::string_view name) {
  for (const auto known : kOfTheDriver)
    if (known == name) return true;
  return false;
}

// Why a function without a body can not be called.
std::string_view ReasonOfExternal(std::string_view name) {
  if (name.starts_with("cudaCG")) return reasons::kGridBarrier;
  // cudaLaunchDevice…, cudaGetParameterBuffer…, cudaDeviceSynchronize, …
  if (name.starts_with("cuda") || name.starts_with("__cuda")) return reasons::kDeviceRuntime;
  return reasons::kExternal;
}

// Registers that do not have in a slice the value that they have in the whole launch; %ctaid and
// %nctaid, which are replaced, are not among them.
std::string_view ReasonOf(SpecialRegister special) {
  using R = SpecialRegister;
  if (special >= R::kClusteridX && special <= R::kIsExplicitCluster) return reasons::kClusters;
  // Where the driver puts what cooperative_groups::grid_group::sync() needs.
  if (special >= R::kEnvreg0 && special <= R::kEnvreg3) return reasons::kGridBarrier;
  if (special == R::kGridid) return reasons::kGridId;
  // Kernels compare what several blocks or launches read from it.
  if (special >= R::kGlobaltimer && special <= R::kGlobaltimerHi) return reasons::kGlobalTimer;
  return {};
}

bool IsBlockIndex(SpecialRegister special) {
  return special >= SpecialRegister::kCtaidX && special <= SpecialRegister::kNctaidZ;
}

// A launch without the attribute makes each block a cluster of its own, in a slice as in the whole.
// So the state space .shared::cluster, which copies by TMA are written with, is no obstacle. What
// is refused is made for clusters of several blocks, and would have us know how it is launched.
std::string_view ReasonOf(const ptx::Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (opcode == "griddepcontrol") return reasons::kDependentLaunch;
  if (opcode == "mapa" || opcode == "getctarank" || opcode == "clusterlaunchcontrol")
    return reasons::kClusters;
  if (opcode == "barrier" && instruction.Has("cluster")) return reasons::kClusters;
  if (instruction.Has("multicast::cluster") || instruction.Has("cta_group::2"))
    return reasons::kClusters;
  return {};
}

class NeedsFinder {
 public:
  NeedsFinder(std::string_view text, const ptx::Module& module) : text_(text), module_(module) {}

  Result<KernelNeeds> Find(const ptx::Function& entry) {
    for (ptx::Lexer head(text_, entry.text_begin, entry.body_begin); !head.AtEnd();)
      if (const std::string_view word = head.Take().text; word == "maxclusterrank")
        return RefusedFor(reasons::kClusters, entry.line, word);
    CUSPAN_RETURN_IF_ERROR(Read(entry));
    while (!unread_.empty()) {
      const ptx::Function& function = module_.functions[unread_.back()];
      unread_.pop_back();
      if (function.defined) CUSPAN_RETURN_IF_ERROR(Read(function));
    }
    for (const std::uint32_t index : functions_) {
      const ptx::Function& function = module_.functions[index];
      (function.defined ? needs_.functions : needs_.externals).push_back(&function);
    }
    for (const std::uint32_t index : variables_) {
      const ptx::Variable& variable = module_.variables[index];
      (variable.space == ptx::Space::kGlobal  ? needs_.globals
       : variable.space == ptx::Space::kConst ? needs_.constants
                                              : needs_.shared)
          .push_back(&variable);
    }
    return std::move(needs_);
  }

 private:
  Status Read(const ptx::Function& function) {
    // The parser's only such directives are those of clusters.
    if (!function.unsupported.empty())
      return RefusedFor(reasons::kClusters, function.line, function.name);
    const Result<ptx::Body> body = ptx::ParseBody(text_, function);
    if (!body.ok()) return Status::Unsupported("{} ({})", reasons::kPtx, body.status().message());
    CUSPAN_RETURN_IF_ERROR(CheckNames(function, *body));
    for (const ptx::Instruction& instruction : body->instructions) {
      if (const auto reason = ReasonOf(instruction); !reason.empty())
        return RefusedFor(reason, instruction.line, instruction.Name());
      const bool calls = instruction.opcode == "call";
      if (calls) CUSPAN_RETURN_IF_ERROR(CheckCall(instruction));
      for (const ptx::Operand& operand : instruction.operands)
        CUSPAN_RETURN_IF_ERROR(ReadOperand(function, instruction, operand, calls));
    }
    return Status::Ok();
  }

  // The rewriter finds what it replaces by its name alone.
  Status CheckNames(const ptx::Function& function, const ptx::Body& body) const {
    const auto check = [&](std::string_view name) {
      if (name != "%ctaid" && name != "%nctaid" && module_.FindVariable(name) == nullptr)
        return Status::Ok();
      return RefusedFor(reasons::kForm, function.line,
                        Format("'{}' has two meanings", Printable(name, 100)));
    };
    for (const auto& each : body.registers) CUSPAN_RETURN_IF_ERROR(check(each.name));
    for (const auto& each : body.variables) CUSPAN_RETURN_IF_ERROR(check(each.name));
    for (const auto& each : body.labels) CUSPAN_RETURN_IF_ERROR(check(each.name));
    for (const auto& each : body.branch_tables) CUSPAN_RETURN_IF_ERROR(check(each.name));
    return Status::Ok();
  }

  // "call (results), function, (arguments);": what is called is the first that is no list, and
  // nothing but a list follows it where it is called by its name.
  static Status CheckCall(const ptx::Instruction& instruction) {
    using Kind = ptx::Operand::Kind;
    std::size_t names = 0;
    for (const ptx::Operand& operand : instruction.operands) {
      if (operand.kind == Kind::kVector) continue;
      if (operand.kind != Kind::kSymbol || ++names > 1)
        return RefusedFor(reasons::kIndirect, instruction.line, instruction.Name());
    }
    if (names == 0) return RefusedFor(reasons::kIndirect, instruction.line, instruction.Name());
    return Status::Ok();
  }

  // `called`: a function that is named here is called. Operands are nested as deeply as the parser
  // allows: a few levels.
  Status ReadOperand(const ptx::Function& function, const ptx::Instruction& instruction,
                     const ptx::Operand& operand, bool called) {
    if (operand.kind == ptx::Operand::Kind::kSpecial) {
      if (const auto reason = ReasonOf(operand.special); !reason.empty())
        return RefusedFor(reason, instruction.line, Printable(operand.name, 100));
      if (!function.entry && IsBlockIndex(operand.special))
        return RefusedFor(reasons::kFunctionIndex, instruction.line, Printable(function.name, 100));
    }
    if (operand.kind == ptx::Operand::Kind::kSymbol)
      CUSPAN_RETURN_IF_ERROR(ReadSymbol(instruction, operand, called));
    for (const ptx::Operand& element : operand.elements)
      CUSPAN_RETURN_IF_ERROR(ReadOperand(function, instruction, element, false));
    return Status::Ok();
  }

  Status ReadSymbol(const ptx::Instruction& instruction, const ptx::Operand& operand, bool called) {
    const std::string name = Printable(operand.name, 100);
    if (const auto found = module_.variable_index.find(operand.name);
        found != module_.variable_index.end()) {
      const ptx::Variable& variable = module_.variables[found->second];
      // .extern says that a variable is another module's, but for dynamic shared memory.
      const bool dynamic = variable.space == ptx::Space::kShared && variable.bytes == 0;
      if (variable.external && variable.space != ptx::Space::kGlobal && !dynamic)
        return RefusedFor(reasons::kVariable, instruction.line, name);
      variables_.insert(found->second);
      return Status::Ok();
    }
    const auto found = module_.function_index.find(operand.name);
    if (found == module_.function_index.end())
      return RefusedFor(reasons::kPtx, instruction.line, Format("'{}' is not declared", name));
    const ptx::Function& function = module_.functions[found->second];
    if (!called || function.entry) return RefusedFor(reasons::kIndirect, instruction.line, name);
    if (!function.defined && !IsOfTheDriver(function.name))
      return RefusedFor(ReasonOfExternal(function.name), instruction.line, name);
    if (functions_.insert(found->second).second) unread_.push_back(found->second);
    return Status::Ok();
  }

  const std::string_view text_;
  const ptx::Module& module_;
  std::vector<std::uint32_t> unread_;
  std::set<std::uint32_t> functions_;
  std::set<std::uint32_t> variables_;
  KernelNeeds needs_;
};

}  // namespace

Result<KernelNeeds> FindNeeds(std::string_view text, const ptx::Module& module,
                              const ptx::Function& entry) {
  return NeedsFinder(text, module).Find(entry);
}

Status RefusedFor(std::string_view reason, std::uint32_t line, std::string_view what) {
  return Status::Unsupported("{} (PTX line {}: {})", reason, line, what);
}

}  // namespace cuspan::slicing
