// All that has to be known of a kernel before code is made for it: the
// functions it may reach, its shared memory, and whether it may suspend.
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

// A function that belongs to a kernel's code.
struct PlannedFunction {
  std::uint32_t index;  // In Module::functions.
  const ptx::Body* body;
  BodyFacts facts;
  std::vector<std::uint32_t> spin_branches;
};

// What CUDA sets aside for itself in each block. (PTX ISA, "%reserved_smem_offset_begin")
inline constexpr std::uint32_t kReservedSharedBytes = 1024;

struct KernelPlan {
  std::vector<PlannedFunction> functions;  // The kernel first.
  // Functions whose address may be called, by index in `functions`.
  std::vector<std::uint32_t> indirect_targets;
  // Offset of each shared variable: (index in Module::functions, or kNoIndex for
  // the module's own; index in Body::variables or Module::variables).
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> shared_offsets;
  std::uint32_t static_shared_bytes = 0;
  // Offset of kReservedSharedBytes for the toolkit's own code, or kNoIndex.
  std::uint32_t reserved_shared_offset = ptx::kNoIndex;
  std::uint64_t local_bytes = 0;  // Of all functions together.
  bool needs_fibers = false;
  // Whether it may print, or use the heap of the device, itself or through a callee.
  bool prints = false;
  bool uses_heap = false;
};

// Body of a function by index; parses it when that has not happened yet.
using BodySource = std::function<Result<const ptx::Body*>(std::uint32_t)>;

// Plans the kernel with index `kernel`. kInvalid or kUnsupported, naming kernel
// and line, when its code can not be completed.
Result<KernelPlan> PlanKernel(const ptx::Module& module, std::uint32_t kernel,
                              const BodySource& bodies);

}  // namespace cuspan::softgpu::analysis
