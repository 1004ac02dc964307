// Points of reconvergence in code executing the lanes of a warp one after another. With them, its
// memory effects equal those of code for a whole warp. GPUs reconverge lanes behind divergent
// branches and make each access for all of them at once. Programs older than independent thread
// scheduling rely on it.
//
// A lane waits at a point until no lane of its warp can continue. Then the lanes at the lowest
// position of the warp's schedule continue. A point precedes an access if its result may depend on
// another lane's access since all lanes were together. Loops with points have another one at the
// end of each iteration, if needed.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"

namespace cuspan::softgpu::analysis {

struct ReconvergencePoint {
  enum class Side : std::uint8_t {
    kBefore,  // Before the instruction, with any value of its guard.
    kTaken,   // On the taken edge of the branch instruction.
    kAfter,   // After the instruction: the last of its basic block, no branch.
  };
  std::uint32_t instruction = 0;  // Index in Body::instructions.
  Side side = Side::kBefore;
  std::uint64_t place = 0;
};

// Finds the points of each function of the plan, ascending by instruction and `side`. Requires
// bodies after SplitRegisters (split.h).
std::vector<std::vector<ReconvergencePoint>> PlanReconvergence(const ptx::Module& module,
                                                               const KernelPlan& plan);

}  // namespace cuspan::softgpu::analysis
