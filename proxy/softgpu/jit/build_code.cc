#include "proxy/softgpu/jit/build_code.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proxy/softgpu/analysis/reconvergence.h"
#include "proxy/softgpu/analysis/warp_plan.h"
#include "proxy/softgpu/jit/engine.h"

namespace cuspan::softgpu::jit {

std::string CodeForm::Name() const {
  if (warps)
    return Format("warp {} {} {}{}", warps->row, warps->full, warps->aligned_x,
                  always_warps ? ", always" : "");
  std::string name = "thread";
  if (check_accesses) name += ", checked";
  if (interleaved) name += ", interleaved";
  if (!optimised) name += ", quick";
  return name;
}

std::optional<CodeForm> CodeForm::OfName(std::string_view name) {
  std::vector<CodeForm> forms = {{}, {{}, true, true}, {{}, false, false}, {{}, true, false}};
  for (const unsigned row : {1u, 8u, 16u, 32u})
    for (const bool full : {false, true})
      for (const bool aligned_x : {false, true})
        for (const bool always : {false, true})
          forms.push_back({analysis::WarpLayout{row, full, aligned_x}, false, true, false, always});
  const auto found = std::find_if(forms.begin(), forms.end(),
                                  [&](const auto& form) { return form.Name() == name; });
  return found == forms.end() ? std::nullopt : std::optional(*found);
}

Result<KernelCode> BuildCode(const ptx::Module& module, const analysis::KernelPlan& plan,
                             const CodeForm& form, bool or_thread) {
  const std::string_view name = module.functions[plan.functions[0].index].name;
  const CodeOptions options{form.optimised ? Effort::kOptimised : Effort::kQuick,
                            form.check_accesses, form.interleaved};
  KernelCode code;
  emit::ModuleEmitter::ReconvergencePoints points(plan.functions.size());
  Result<ObjectFile> object = Status::Unsupported("kernel '{}': not compiled", name);
  if (form.warps) {
    std::string why;
    auto warps = analysis::PlanWarps(module, plan, *form.warps, &why);
    if (warps && !form.always_warps && !analysis::IsWorthWarps(plan, *warps)) {
      why = "each thread uses a different part of its local memory";
      warps.reset();
    }
    if (warps) {
      object = CompileKernel(module, plan, &*warps, points, options);
      code.needs_fibers = warps->needs_fibers;
      code.warps = true;
    } else {
      object = Status::Unsupported("{}", why);
    }
    if (!object.ok() && !or_thread) return Status::Unsupported("{}", object.status().message());
    if (!object.ok())
      LogInfo("software GPU: kernel {} runs thread by thread: {}", name, object.status().message());
  }
  if (!object.ok()) {
    points = analysis::PlanReconvergence(module, plan);
    object = CompileKernel(module, plan, nullptr, points, options);
    code.needs_fibers =
        plan.needs_fibers || form.interleaved ||
        std::any_of(points.begin(), points.end(), [](const auto& own) { return !own.empty(); });
    code.warps = false;
  }
  if (!object.ok()) return object.status();
  code.frame_bytes = object->frame_bytes;
  code.object = std::move(object->bytes);
  return code;
}

std::size_t InstructionCount(const analysis::KernelPlan& plan) {
  std::size_t count = 0;
  for (const auto& function : plan.functions) count += function.body->instructions.size();
  return count;
}

bool IsRecursive(const ptx::Module& module, const analysis::KernelPlan& plan) {
  std::map<std::string_view, const analysis::PlannedFunction*> functions;
  for (const auto& function : plan.functions) {
    if (function.facts.calls_indirectly) return true;  // Unknown callees.
    functions[module.functions[function.index].name] = &function;
  }
  enum class Visit { kNone, kInside, kDone };
  std::map<const analysis::PlannedFunction*, Visit> visits;
  const std::function<bool(const analysis::PlannedFunction*)> returns_here =
      [&](const analysis::PlannedFunction* function) {
        Visit& visit = visits[function];
        if (visit != Visit::kNone) return visit == Visit::kInside;
        visit = Visit::kInside;
        for (const auto callee : function->facts.callees) {
          const auto found = functions.find(callee);
          if (found != functions.end() && returns_here(found->second)) return true;
        }
        visits[function] = Visit::kDone;
        return false;
      };
  return returns_here(&plan.functions[0]);
}

}  // namespace cuspan::softgpu::jit
