// The order in which a warp executes the blocks of a function: each loop in one
// piece, everything else as soon as what leads to it is done. Lanes that come to
// a block wait there until its turn, so that lanes which parted meet again where
// their ways join.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/ptx/module.h"
#include "proxy/softgpu/analysis/bits.h"
#include "proxy/softgpu/analysis/cfg.h"

namespace cuspan::softgpu::analysis {

// A place in the order; its number is its position.
struct Node {
  // In FlowGraph::blocks; kNoIndex for the end of a loop, where lanes that go
  // round again wait for each other, and for the return of a function.
  std::uint32_t block = ptx::kNoIndex;
  std::vector<std::uint32_t> successors;  // Later nodes, but the header for the end of a loop.
  bool leaves = false;                    // Lanes may end here.
};

struct Schedule {
  std::vector<Node> nodes;
  std::vector<std::uint32_t> node_of;  // For each block; kNoIndex for those never reached.
  // Where the branch from node `from` to `block` leads: the end of a loop when it goes back;
  // kNoIndex when lanes end by it.
  std::uint32_t Target(std::uint32_t from, std::uint32_t block) const;
  // The return of a function, where lanes wait for each other; kNoIndex for kernels.
  std::uint32_t return_node = ptx::kNoIndex;
  // For each node: its nearest post-dominator, or kNoIndex.
  std::vector<std::uint32_t> join;

  std::vector<bool> ends;                // Blocks that do nothing but end their lanes.
  std::vector<std::uint32_t> loop_ends;  // For each block that is a loop's header: the loop's end.
};

// Nullopt when the control flow has a loop with several entries, or is too
// large to be worth it. `is_kernel`: `ret` ends a lane for good.
std::optional<Schedule> BuildSchedule(const ptx::Body& body, const FlowGraph& graph,
                                      bool is_kernel);

// Nodes that lanes may reach from `first` without passing `end`.
Bits ReachedFrom(const Schedule& schedule, std::uint32_t first, std::uint32_t end);

}  // namespace cuspan::softgpu::analysis
