// The control flow of one function body.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

// Does `instruction` end its thread or leave its function when it is executed?
bool LeavesFunction(const ptx::Instruction& instruction);
bool IsBranch(const ptx::Instruction& instruction);

struct Block {
  std::uint32_t begin;  // Instructions [begin, end).
  std::uint32_t end;
  std::vector<std::uint32_t> successors;  // Blocks; one for leaving is not listed.
  std::uint32_t cycle =
      ptx::kNoIndex;  // The strongly connected component it is in, when that has a cycle.
};

struct FlowGraph {
  std::vector<Block> blocks;            // In the order of the text.
  std::vector<std::uint32_t> block_of;  // For each instruction.
  std::uint32_t cycle_count = 0;
};

// Splits the body into basic blocks and finds its cycles.
FlowGraph BuildFlowGraph(const ptx::Body& body);

}  // namespace cuspan::softgpu::analysis
