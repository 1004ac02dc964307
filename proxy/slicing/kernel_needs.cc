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

// Functions provided by every driver, equivalent in each module of a context.
constexpr std::string_view kOfTheDriver[] = {"vprintf", "__assertfail", "malloc", "free"};

bool IsOfTheDriver(std::string_view name) {
  for (const auto known : kOfTheDriver)
    if (known == name) return true;
  return false;
}

// Reason for refusing a call of a function without a body.
std::string_view ReasonOfExternal(std::string_view name) {
  if (name.starts_with("cudaCG")) return reasons::kGridBarrier;
  // cudaLaunchDevice…, cudaGetParameterBuffer…, cudaDeviceSynchronize, …
  if (name.starts_with("cuda") || name.starts_with("__cuda")) return reasons::kDeviceRuntime;
  return reasons::kExternal;
}

// Reason for refusing a special register with a different value in a slice. %ctaid and %nctaid are
// replaced, and therefore allowed.
std::string_view ReasonOf(SpecialRegister special) {
  using R = SpecialRegister;
  if (special >= R::kClusteridX && special <= R::kIsExplicitCluster) return reasons::kClusters;
  // The driver's data for cooperative_groups::grid_group::sync().
  if (special >= R::kEnvreg0 && special <= R::kEnvreg3) return reasons::kGridBarrier;
  if (special == R::kGridid) return reasons::kGridId;
  // Kernels compare values read by several blocks or launches.
  if (special >= R::kGlobaltimer && special <= R::kGlobaltimerHi) return reasons::kGlobalTimer;
  return {};
}

bool IsBlockIndex(SpecialRegister special) {
  return special >= SpecialRegister::kCtaidX && special <= SpecialRegister::kNctaidZ;
}

// Without the cluster attribute each block is its own cluster, in a slice as in the whole launch.
// Therefore the state space .shared::cluster, as used for TMA copies, is allowed. The refused
// instructions are for clusters of several blocks, and depend on launch attributes.
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
      if (const std::string_view word = head.Consume().text; word == "maxclusterrank")
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
    // Only cluster directives are unsupported by this parser.
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

  // The rewriter finds names to be replaced as text, so local names must not be equal to them.
  Status CheckNames(const ptx::Function& function, const ptx::Body& body) const {
    const auto check = [&](std::string_view name) {
      if (name != "%ctaid" && name != "%nctaid" && module_.FindVariable(name) == nullptr)
        return Status::Ok();
      return RefusedFor(reasons::kForm, function.line,
                        Format("the name '{}' has two meanings", Printable(name, 100)));
    };
    for (const auto& each : body.registers) CUSPAN_RETURN_IF_ERROR(check(each.name));
    for (const auto& each : body.variables) CUSPAN_RETURN_IF_ERROR(check(each.name));
    for (const auto& each : body.labels) CUSPAN_RETURN_IF_ERROR(check(each.name));
    for (const auto& each : body.branch_tables) CUSPAN_RETURN_IF_ERROR(check(each.name));
    return Status::Ok();
  }

  // "call (results), function, (arguments);": the callee is the first operand not in parentheses.
  // In a direct call only lists follow it.
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

  // `called`: a function name here is the callee. The parser limits the nesting of operands to a
  // few levels.
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
      // .extern marks a variable of another module, except for dynamic shared memory.
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
