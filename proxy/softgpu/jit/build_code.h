// From the plan of a kernel to its code: which form it has, and how much work is put into it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/shape.h"
#include "proxy/softgpu/jit/kernel_file.h"

namespace cuspan::softgpu::jit {

// What code is to be.
struct CodeForm {
  // For a warp of blocks that lie so; nullopt: for one thread.
  std::optional<analysis::WarpLayout> warps;
  bool check_accesses = false;  // With a check before each access; for one thread only.
  bool optimised = true;      // Else it is compiled ten times as fast, and runs ten times as long.
  bool interleaved = false;   // Threads take turns at each access; for one thread only.
  bool always_warps = false;  // For a warp even where that is slower.

  // A name that no other form has, made of letters, digits, spaces and commas.
  std::string Name() const;
  // The form of that name; nullopt when it is none.
  static std::optional<CodeForm> OfName(std::string_view name);
};

// Compiles the kernel of `plan`. Where a warp is asked for and the kernel does not allow that, the
// code is for one thread if `or_thread`, and else it is kUnsupported. Any thread; nothing else is
// touched. Fails naming kernel, line and instruction.
Result<KernelCode> BuildCode(const ptx::Module& module, const analysis::KernelPlan& plan,
                             const CodeForm& form, bool or_thread = true);

// How much there is to compile: the PTX instructions of the kernel and of all that it may call.
std::size_t InstructionCount(const analysis::KernelPlan& plan);
// Whether a function of the kernel may be called while it runs already.
bool IsRecursive(const ptx::Module& module, const analysis::KernelPlan& plan);

}  // namespace cuspan::softgpu::jit
