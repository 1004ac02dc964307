// What a function body contains that matters beyond itself: whom it calls, what
// may suspend its thread, and which loops wait for other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

struct BodyFacts {
  std::vector<std::string_view> callees;  // Named in call instructions; may repeat.
  std::vector<std::string_view>
      symbols;  // Named otherwise: variables, and functions whose address is taken.
  bool calls_indirectly = false;
  bool has_collective =
      false;           // Something that may suspend: barriers, warp collectives, nanosleep.
  bool exits = false;  // Contains `exit`.
  bool uses_reserved_shared =
      false;  // The shared memory that a toolkit's own code finds by special registers.
  bool reads_shared_state =
      false;  // Atomics, volatile, relaxed or acquire loads: what spin loops are made of.
};

BodyFacts CollectFacts(const ptx::Body& body);

// The registers that `instruction` writes, and those that it reads, its guard aside; may repeat.
std::vector<std::uint32_t> WrittenRegisters(const ptx::Instruction& instruction);
std::vector<std::uint32_t> ReadRegisters(const ptx::Instruction& instruction);
// Barriers of the block, and nanosleep.
bool IsBlockBarrier(const ptx::Instruction& instruction);
// Shuffles, votes, matches, reductions and barriers of a warp.
bool IsWarpCollective(const ptx::Instruction& instruction);
// Index of the operand with the member mask of such an instruction; those without .sync have none.
std::size_t MembersAt(const ptx::Instruction& instruction);
// Name of the function that a call instruction calls; empty for a call through a pointer.
std::string_view CalleeOf(const ptx::Instruction& call);

// The backward branches (indices of instructions, ascending) of loops whose
// course depends on what other threads write: there a thread must let others
// run. A compare-and-swap loop that retries with the value it has just read
// makes progress alone and is not among them. `callee_reads` says whether a
// called function, or one that it calls, has reads_shared_state.
std::vector<std::uint32_t> FindSpinBranches(
    const ptx::Body& body, const std::function<bool(std::string_view)>& callee_reads);

}  // namespace cuspan::softgpu::analysis
