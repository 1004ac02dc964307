// Facts about a kernel needed before code generation: its reachable functions, its shared memory,
// and its ability to suspend.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/facts.h"

namespace cuspan::softgpu::analysis {

// One function of a kernel's code.
struct PlannedFunction {
  std::uint32_t index;  // Index in Module::functions.
  const ptx::Body* body;
  BodyFacts facts;
  std::vector<std::uint32_t> spin_branches;
};

// Shared memory reserved by CUDA in each block. (PTX ISA, "%reserved_smem_offset_begin")
inline constexpr std::uint32_t kReservedSharedBytes = 1024;

struct KernelPlan {
  std::vector<PlannedFunction> functions;  // The kernel is the first.
  // Possible targets of indirect calls, as indices in `functions`.
  std::vector<std::uint32_t> indirect_targets;
  // Offset of each shared variable. Key: index in Module::functions (kNoIndex for module
  // variables), index in Body::variables or Module::variables.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> shared_offsets;
  std::uint32_t static_shared_bytes = 0;
  // Offset of the kReservedSharedBytes, or kNoIndex if unused.
  std::uint32_t reserved_shared_offset = ptx::kNoIndex;
  std::uint64_t local_bytes = 0;  // Sum over all functions.
  bool needs_fibers = false;
  // True if the kernel may print, or use the device heap, itself or through a callee.
  bool prints = false;
  bool uses_heap = false;
};

// Returns the body of the function with this index; parses it on first use.
using BodySource = std::function<Result<const ptx::Body*>(std::uint32_t)>;

// Plans the kernel with index `kernel`. Returns kInvalid or kUnsupported, naming kernel and line,
// if its code is incomplete.
Result<KernelPlan> PlanKernel(const ptx::Module& module, std::uint32_t kernel,
                              const BodySource& bodies);

}  // namespace cuspan::softgpu::analysis
