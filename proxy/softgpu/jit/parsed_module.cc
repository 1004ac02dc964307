#include "proxy/softgpu/jit/parsed_module.h"

#include <utility>

#include "proxy/ptx/index.h"
#include "proxy/ptx/parser.h"
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
