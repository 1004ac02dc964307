// Points of reconvergence in code that executes the lanes of a warp one after another. With them it
// does to memory what code for a whole warp does. GPUs bring lanes together behind divergent
// branches and make each access for all of them at once. Programs from before independent thread
// scheduling rely on that.
//
// A lane that comes to a point waits until no lane of its warp can go on. Then the lanes at the
// lowest place go on, in the order of a warp's schedule. A point stands before an access if its
// result may depend on an access of another lane since all lanes were together. Others stand where
// lanes go round a loop that has such points.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/plan.h"

namespace cuspan::softgpu::analysis {

struct ReconvergencePoint {
  enum class Side : std::uint8_t {
    kBefore,  // Before the instruction, whatever its guard says.
    kTaken,   // On the way that the instruction, a branch, takes.
    kAfter,   // After the instruction, the last of its basic block and no branch.
  };
  std::uint32_t instruction = 0;  // In Body::instructions.
  Side side = Side::kBefore;
  std::uint64_t place = 0;
};

// Finds the points of each function of the plan, ascending by instruction and `side`. The module's
// bodies have been split (split.h).
std::vector<std::vector<ReconvergencePoint>> PlanReconvergence(const ptx::Module& module,
                                                               const KernelPlan& plan);

}  // namespace cuspan::softgpu::analysis
