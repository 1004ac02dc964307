// Control flow of one function body.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

// True if `instruction` ends its thread or returns from its function.
bool LeavesFunction(const ptx::Instruction& instruction);
bool IsBranch(const ptx::Instruction& instruction);

struct Block {
  std::uint32_t begin;  // Instructions [begin, end).
  std::uint32_t end;
  std::vector<std::uint32_t> successors;  // Blocks; leaving the function is not listed.
  std::uint32_t cycle = ptx::kNoIndex;    // Its strongly connected component, if this has a cycle.
};

struct FlowGraph {
  std::vector<Block> blocks;            // Textual order.
  std::vector<std::uint32_t> block_of;  // Indexed by instruction.
  std::uint32_t cycle_count = 0;
};

// Splits the body into basic blocks and finds its cycles.
FlowGraph BuildFlowGraph(const ptx::Body& body);

}  // namespace cuspan::softgpu::analysis
