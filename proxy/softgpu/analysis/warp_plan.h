// Whether and how a kernel runs a warp at a time: the order of its blocks, the
// shape of each register, and what lanes that wait elsewhere must not lose.
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
  // For each node: the nodes where other lanes may wait while it runs, and the
  // registers that these lanes will read, so that writes must spare them.
  std::vector<Bits> waiting;
  std::vector<Bits> kept;
  // Nodes from which a lane may still come to what lanes do together, or back to a caller. Nobody
  // waits for lanes that are at others: they end as soon as it is their turn.
  Bits may_meet;
  // Of a kernel: whether a collective may be done while lanes that it names wait at nodes from
  // which they may go on to another one or to their end, which only their way tells.
  bool may_owe = false;

  // Do all lanes that have not ended run the node together?
  bool Together(std::uint32_t node) const { return waiting[node].empty(); }
};

struct WarpPlan {
  WarpLayout layout;
  std::vector<WarpFunction> functions;  // As in KernelPlan::functions.
  bool needs_fibers = false;            // Warps wait for each other.
};

// The schedule, shapes and waiting lanes of one function. Nullopt when its control flow has none.
std::optional<WarpFunction> PlanWarpFunction(const ptx::Module& module,
                                             const PlannedFunction& planned,
                                             const WarpLayout& layout);

// Nullopt when lanes may have to meet from different places, or otherwise do
// what only threads of their own can do; `why` says what and where.
std::optional<WarpPlan> PlanWarps(const ptx::Module& module, const KernelPlan& plan,
                                  const WarpLayout& layout, std::string* why);

// Whether a warp at a time is faster than a thread at a time. It is not where much of what a kernel
// without barriers does is to use local memory, and each lane another part of it: its accesses
// are gathers then, and the lanes mostly go different ways.
bool IsWorthWarps(const KernelPlan& plan, const WarpPlan& warps);

}  // namespace cuspan::softgpu::analysis
