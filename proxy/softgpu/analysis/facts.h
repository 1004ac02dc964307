// Facts about a function body needed elsewhere: its callees, instructions able to suspend its
// thread, and loops waiting for other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

struct BodyFacts {
  std::vector<std::string_view> callees;  // Names in call instructions, may repeat.
  std::vector<std::string_view>
      symbols;  // Other names: variables, functions with their address taken.
  bool calls_indirectly = false;
  bool has_collective = false;        // May suspend: barriers, warp collectives, nanosleep.
  bool exits = false;                 // Contains `exit`.
  bool uses_reserved_shared = false;  // Shared memory addressed by %reserved_smem registers.
  bool reads_shared_state =
      false;  // Has atomics or volatile, relaxed or acquire loads, as spin loops do.
};

BodyFacts CollectFacts(const ptx::Body& body);

// Registers written or read by `instruction`, without its guard; may repeat.
std::vector<std::uint32_t> WrittenRegisters(const ptx::Instruction& instruction);
std::vector<std::uint32_t> ReadRegisters(const ptx::Instruction& instruction);
// True for barriers of the block, and nanosleep.
bool IsBlockBarrier(const ptx::Instruction& instruction);
// True for shuffles, votes, matches, reductions and barriers of a warp.
bool IsWarpCollective(const ptx::Instruction& instruction);
// Index of the member-mask operand of a warp collective; out of range without .sync.
std::size_t MembersAt(const ptx::Instruction& instruction);
// Name of the function called; empty for a call through a pointer.
std::string_view CalleeOf(const ptx::Instruction& call);

// Finds the backward branches (instruction indices, ascending) of loops depending on writes of
// other threads. A thread must yield there. A compare-and-swap loop retrying with the value just
// read makes progress alone and is not included. `callee_reads` returns true if the called function
// has reads_shared_state, itself or through its callees.
std::vector<std::uint32_t> FindSpinBranches(
    const ptx::Body& body, const std::function<bool(std::string_view)>& callee_reads);

}  // namespace cuspan::softgpu::analysis
