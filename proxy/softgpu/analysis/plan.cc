#include "proxy/softgpu/analysis/plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "proxy/ptx/declarations.h"
#include "proxy/softgpu/analysis/device_runtime.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::kNoIndex;
using ptx::Space;

// Largest shared memory of a block on any architecture. (CUDA C++ Programming Guide, "Technical
// Specifications")
constexpr std::uint64_t kMaxSharedBytes = 227 << 10;
// Minimum alignment of dynamic shared memory.
constexpr std::uint32_t kSharedAlignment = 16;

class ModulePlanner {
 public:
  ModulePlanner(const ptx::Module& module, const BodySource& bodies)
      : module_(module), bodies_(bodies) {}

  Result<KernelPlan> Plan(std::uint32_t kernel) {
    kernel_name_ = module_.functions[kernel].name;
    CUSPAN_RETURN_IF_ERROR(Add(kernel));
    for (std::size_t i = 0; i < plan_.functions.size(); ++i) CUSPAN_RETURN_IF_ERROR(Follow(i));
    FindTransitiveReads();
    CUSPAN_RETURN_IF_ERROR(LayOutShared());
    for (std::size_t i = 0; i < plan_.functions.size(); ++i) {
      auto& function = plan_.functions[i];
      function.spin_branches =
          FindSpinBranches(*function.body, [this](std::string_view name) { return Reads(name); });
      plan_.needs_fibers = plan_.needs_fibers || function.facts.has_collective ||
                           !function.spin_branches.empty() || (i != 0 && function.facts.exits);
      for (const auto& variable : function.body->variables)
        if (variable.space == Space::kLocal) plan_.local_bytes += variable.bytes;
    }
    return std::move(plan_);
  }

 private:
  Status Add(std::uint32_t index) {
    if (!position_.try_emplace(index, static_cast<std::uint32_t>(plan_.functions.size())).second)
      return Status::Ok();
    CUSPAN_ASSIGN_OR_RETURN(auto body, bodies_(index));
    plan_.functions.push_back({index, body, CollectFacts(*body), {}});
    return Status::Ok();
  }

  // Adds the callees of the plan's function `i`.
  Status Follow(std::size_t i) {
    const BodyFacts facts = plan_.functions[i].facts;  // A copy: Add moves the vector.
    for (auto name : facts.callees) {
      const auto found = module_.function_index.find(name);
      if (found == module_.function_index.end())
        return Status::Invalid("kernel '{}' calls '{}', which the module does not declare",
                               kernel_name_, name);
      const auto& callee = module_.functions[found->second];
      if (callee.entry)
        return Status::Invalid("kernel '{}' calls the kernel '{}' like a function", kernel_name_,
                               name);
      if (callee.defined) {
        CUSPAN_RETURN_IF_ERROR(Add(found->second));
      } else if (FindRuntimeFunction(name) == nullptr) {
        return Status::Unsupported(
            "kernel '{}' calls '{}' (declared on PTX line {}), which is not implemented",
            kernel_name_, name, callee.line);
      }
      plan_.prints = plan_.prints || UsesPrintBuffer(name);
      plan_.uses_heap = plan_.uses_heap || UsesHeap(name);
    }
    if (facts.calls_indirectly) CUSPAN_RETURN_IF_ERROR(AddIndirectTargets());
    return Status::Ok();
  }

  // A pointer may come from a table of the module or from another kernel's stores. Therefore every
  // function with its address taken is a target.
  Status AddIndirectTargets() {
    if (indirect_done_) return Status::Ok();
    indirect_done_ = true;
    std::vector<std::uint32_t> taken;
    const auto note = [&](std::string_view name) {
      const auto found = module_.function_index.find(name);
      if (found == module_.function_index.end()) return;
      const auto& function = module_.functions[found->second];
      if (function.defined && !function.entry) taken.push_back(found->second);
    };
    for (const auto& variable : module_.variables)
      for (const auto& relocation : variable.relocations) note(relocation.symbol);
    for (std::uint32_t i = 0; i < module_.functions.size(); ++i) {
      if (!module_.functions[i].defined) continue;
      // An invalid function elsewhere in the module does not make this kernel invalid.
      const auto body = bodies_(i);
      if (!body.ok()) continue;
      for (auto symbol : CollectFacts(**body).symbols) note(symbol);
    }
    std::sort(taken.begin(), taken.end());
    taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
    for (auto index : taken) {
      CUSPAN_RETURN_IF_ERROR(Add(index));
      plan_.indirect_targets.push_back(position_[index]);
    }
    return Status::Ok();
  }

  // Finds the functions reading shared state, themselves or through a callee.
  void FindTransitiveReads() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& function : plan_.functions) {
        const auto name = module_.functions[function.index].name;
        if (readers_.count(name) != 0) continue;
        const bool reads = function.facts.reads_shared_state || function.facts.calls_indirectly ||
                           std::any_of(function.facts.callees.begin(), function.facts.callees.end(),
                                       [this](std::string_view callee) { return Reads(callee); });
        if (reads) changed = readers_.insert(name).second;
      }
    }
  }
  bool Reads(std::string_view name) const { return readers_.count(name) != 0; }

  Status LayOutShared() {
    std::uint32_t dynamic_alignment = 0;
    std::uint64_t end = 0;
    std::unordered_set<std::uint32_t> seen;
    for (const auto& function : plan_.functions) {
      for (auto symbol : function.facts.symbols) {
        const auto found = module_.variable_index.find(symbol);
        if (found == module_.variable_index.end() || !seen.insert(found->second).second) continue;
        const auto& variable = module_.variables[found->second];
        if (variable.space != Space::kShared) {
          if (variable.external)
            return Status::Unsupported(
                "kernel '{}' uses '{}' (PTX line {}), which is defined in another module",
                kernel_name_, variable.name, variable.line);
          continue;
        }
        if (variable.external || variable.bytes == 0) {
          dynamic_alignment = std::max({dynamic_alignment, variable.alignment, kSharedAlignment});
          dynamic_.push_back(found->second);
        } else {
          CUSPAN_RETURN_IF_ERROR(Place({kNoIndex, found->second}, variable, &end));
        }
      }
      for (std::uint32_t i = 0; i < function.body->variables.size(); ++i) {
        const auto& variable = function.body->variables[i];
        if (variable.space == Space::kShared)
          CUSPAN_RETURN_IF_ERROR(Place({function.index, i}, variable, &end));
      }
    }
    for (const auto& function : plan_.functions) {
      if (!function.facts.uses_reserved_shared || plan_.reserved_shared_offset != kNoIndex)
        continue;
      end = ptx::AlignUp(end, kSharedAlignment);
      plan_.reserved_shared_offset = static_cast<std::uint32_t>(end);
      end += kReservedSharedBytes;
    }
    if (dynamic_alignment != 0) end = ptx::AlignUp(end, dynamic_alignment);
    for (auto index : dynamic_)
      plan_.shared_offsets[{kNoIndex, index}] = static_cast<std::uint32_t>(end);
    plan_.static_shared_bytes = static_cast<std::uint32_t>(end);
    return Status::Ok();
  }

  Status Place(std::pair<std::uint32_t, std::uint32_t> key, const ptx::Variable& variable,
               std::uint64_t* end) {
    *end = ptx::AlignUp(*end, variable.alignment);
    if (variable.bytes > kMaxSharedBytes || *end + variable.bytes > kMaxSharedBytes)
      return Status::Invalid(
          "kernel '{}' needs more than {} bytes of static shared memory ('{}', PTX line {})",
          kernel_name_, kMaxSharedBytes, variable.name, variable.line);
    plan_.shared_offsets[key] = static_cast<std::uint32_t>(*end);
    *end += variable.bytes;
    return Status::Ok();
  }

  const ptx::Module& module_;
  const BodySource& bodies_;
  KernelPlan plan_;
  std::string_view kernel_name_;
  std::unordered_map<std::uint32_t, std::uint32_t> position_;  // Plan index by Module index.
  std::unordered_set<std::string_view> readers_;
  std::vector<std::uint32_t> dynamic_;
  bool indirect_done_ = false;
};

}  // namespace

Result<KernelPlan> PlanKernel(const ptx::Module& module, std::uint32_t kernel,
                              const BodySource& bodies) {
  return ModulePlanner(module, bodies).Plan(kernel);
}

}  // namespace cuspan::softgpu::analysis
