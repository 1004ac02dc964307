// Code generation from the plan of a kernel, for a form of code and a level of optimisation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/shape.h"
#include "proxy/softgpu/jit/kernel_file.h"

namespace cuspan::softgpu::jit {

// Kind of code to generate.
struct CodeForm {
  // Layout of the blocks for code for a warp; nullopt: code for one thread.
  std::optional<analysis::WarpLayout> warps;
  bool check_accesses = false;  // Checks each access; one thread only.
  bool optimised = true;        // If false, compiles 10 times faster and runs 10 times slower.
  bool interleaved = false;     // Switches threads at each access; one thread only.
  bool always_warps = false;    // Uses a warp even if slower.

  // Unique name of the form, made of letters, digits, spaces and commas.
  std::string Name() const;
  // Returns the form with this name, or nullopt.
  static std::optional<CodeForm> OfName(std::string_view name);
};

// Compiles the kernel of `plan`. If the kernel does not allow code for a warp, makes code for one
// thread with `or_thread`, else returns kUnsupported. Errors name kernel, line and instruction.
// Threads: any.
Result<KernelCode> BuildCode(const ptx::Module& module, const analysis::KernelPlan& plan,
                             const CodeForm& form, bool or_thread = true);

// Amount of work: PTX instructions of the kernel and of all its possible callees.
std::size_t InstructionCount(const analysis::KernelPlan& plan);
// True if a function of the kernel may call itself, directly or indirectly.
bool IsRecursive(const ptx::Module& module, const analysis::KernelPlan& plan);

}  // namespace cuspan::softgpu::jit
