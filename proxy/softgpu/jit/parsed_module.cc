#include "proxy/softgpu/jit/parsed_module.h"

#include <utility>

#include "proxy/ptx/index.h"
#include "proxy/ptx/opcodes.h"
#include "proxy/ptx/parser.h"
#include "proxy/softgpu/analysis/device_runtime.h"
#include "proxy/softgpu/analysis/facts.h"
#include "proxy/softgpu/analysis/split.h"

namespace cuspan::softgpu::jit {

Result<std::unique_ptr<ParsedModule>> ParsedModule::Parse(std::shared_ptr<const std::string> text) {
  std::unique_ptr<ParsedModule> parsed(new ParsedModule(std::move(text)));
  CUSPAN_ASSIGN_OR_RETURN(parsed->module_, ptx::IndexModule(*parsed->text_));
  parsed->bodies_.resize(parsed->module_.functions.size());
  return parsed;
}

Result<std::uint32_t> ParsedModule::FindKernel(std::string_view name) const {
  const auto found = module_.function_index.find(name);
  if (found == module_.function_index.end() || !module_.functions[found->second].entry ||
      !module_.functions[found->second].defined)
    return Status::NotFound("the module has no kernel '{}'", name);
  return found->second;
}

Status ParsedModule::Check(bool linked) {
  const auto known = [&](std::string_view name) {
    if (module_.FindVariable(name) != nullptr) return true;
    const ptx::Function* const function = module_.FindFunction(name);
    return function != nullptr &&
           (function->defined || !linked || analysis::IsOfDeviceRuntime(name));
  };
  for (std::uint32_t i = 0; i < module_.functions.size(); ++i) {
    const ptx::Function& function = module_.functions[i];
    if (!function.defined) continue;
    const Result<ptx::Body> body = ptx::ParseBody(*text_, function);
    if (!body.ok() && body.status().code() == StatusCode::kInvalid) return body.status();
    if (!body.ok()) continue;
    for (const ptx::Instruction& instruction : body->instructions)
      if (!ptx::IsOpcode(instruction.opcode))
        return Status::Invalid("PTX line {}: there is no instruction '{}'", instruction.line,
                               instruction.Name());
    const analysis::BodyFacts facts = analysis::CollectFacts(*body);
    for (const auto* const names : {&facts.callees, &facts.symbols})
      for (const std::string_view name : *names)
        if (!known(name))
          return Status::Invalid("PTX line {}: function '{}' uses '{}', which is not {}",
                                 function.line, function.name, name,
                                 module_.FindFunction(name) != nullptr ? "defined" : "declared");
  }
  return Status::Ok();
}

Result<analysis::KernelPlan> ParsedModule::Plan(std::uint32_t kernel) {
  return analysis::PlanKernel(module_, kernel, [this](std::uint32_t i) { return BodyOf(i); });
}

Result<const ptx::Body*> ParsedModule::BodyOf(std::uint32_t function) {
  auto& body = bodies_[function];
  if (body == nullptr) {
    CUSPAN_ASSIGN_OR_RETURN(auto parsed, ptx::ParseBody(*text_, module_.functions[function]));
    body = std::make_unique<ptx::Body>(std::move(parsed));
    analysis::SplitRegisters(body.get());
  }
  return body.get();
}

}  // namespace cuspan::softgpu::jit
