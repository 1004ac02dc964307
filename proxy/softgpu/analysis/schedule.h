// Order in which a warp executes the blocks of a function. Each loop is contiguous; other blocks
// follow as soon as all their predecessors are done. Lanes wait at a block until it is executed.
// Diverged lanes thus reconverge where their paths join.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/bits.h"
#include "proxy/softgpu/analysis/cfg.h"

namespace cuspan::softgpu::analysis {

// Entry of the schedule, identified by its position.
struct Node {
  // Index in FlowGraph::blocks, or kNoIndex for the return of a function and for the end of a loop.
  // There, lanes wait for each other before the next iteration.
  std::uint32_t block = ptx::kNoIndex;
  std::vector<std::uint32_t> successors;  // Later nodes; the header for a loop's end.
  bool leaves = false;                    // Lanes may end here.
};

struct Schedule {
  std::vector<Node> nodes;
  std::vector<std::uint32_t> node_of;  // Indexed by block; kNoIndex if unreachable.
  // Target of the branch from node `from` to `block`: the end of the loop for a back edge; kNoIndex
  // if it ends the lanes.
  std::uint32_t Target(std::uint32_t from, std::uint32_t block) const;
  // Return of a function, where lanes wait for each other; kNoIndex for kernels.
  std::uint32_t return_node = ptx::kNoIndex;
  // Nearest post-dominator of each node, or kNoIndex.
  std::vector<std::uint32_t> join;

  std::vector<bool> ends;                // Blocks only ending their lanes.
  std::vector<std::uint32_t> loop_ends;  // End node of each loop, by header block.
};

// Returns nullopt if a loop has several entries, or if the control flow is too large. `is_kernel`:
// `ret` ends a lane permanently.
std::optional<Schedule> BuildSchedule(const ptx::Body& body, const FlowGraph& graph,
                                      bool is_kernel);

// Nodes reachable by lanes from `first` without passing `end`.
Bits ReachedFrom(const Schedule& schedule, std::uint32_t first, std::uint32_t end);

}  // namespace cuspan::softgpu::analysis
