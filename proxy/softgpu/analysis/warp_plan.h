// Plan of a kernel running a warp at a time: the order of its blocks, the shape of each register,
// and registers to keep for waiting lanes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/softgpu/analysis/bits.h"
#include "proxy/softgpu/analysis/plan.h"
#include "proxy/softgpu/analysis/schedule.h"
#include "proxy/softgpu/analysis/shape.h"

namespace cuspan::softgpu::analysis {

struct WarpFunction {
  Schedule schedule;
  std::vector<Shape> registers;
  std::vector<InstructionPlan> instructions;
  // Indexed by node: the nodes where other lanes may wait while it runs, and registers read later
  // by these lanes. Writes must not change them.
  std::vector<Bits> waiting;
  std::vector<Bits> kept;
  // Nodes from which a lane may still reach a collective, a barrier or a call, or return to a
  // caller. Lanes at other nodes end without meeting others, so no lane waits for them.
  Bits may_meet;
  // Kernels only: true if a collective may run while lanes named by it wait at nodes in may_meet.
  // From there, they reach another collective or their end, depending on their path.
  bool may_owe = false;

  // True if all unfinished lanes run the node together.
  bool Together(std::uint32_t node) const { return waiting[node].empty(); }
};

struct WarpPlan {
  WarpLayout layout;
  std::vector<WarpFunction> functions;  // Same order as KernelPlan::functions.
  bool needs_fibers = false;            // Warps wait for each other.
};

// Schedule, shapes and waiting lanes of one function; nullopt if its control flow has no schedule.
std::optional<WarpFunction> PlanWarpFunction(const ptx::Module& module,
                                             const PlannedFunction& planned,
                                             const WarpLayout& layout);

// Returns nullopt if lanes may meet from different nodes, or need threads of their own for other
// reasons. `why` gets the reason and the line.
std::optional<WarpPlan> PlanWarps(const ptx::Module& module, const KernelPlan& plan,
                                  const WarpLayout& layout, std::string* why);

// True if a warp at a time is faster than a thread at a time. It is slower for kernels without
// barriers with many local-memory accesses at a different offset in each lane. These accesses are
// gathers, and the lanes mostly diverge.
bool IsWorthWarps(const KernelPlan& plan, const WarpPlan& warps);

}  // namespace cuspan::softgpu::analysis
