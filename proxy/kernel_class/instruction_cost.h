// What one instruction of PTX costs, as far as it tells.
#pragma once

#include <cstddef>

#include "proxy/kernel_class/kernel_mix.h"
#include "proxy/ptx/module.h"

namespace cuspan::kernel_class {

// The arithmetic, special functions, control flow and tensor operations of one, by its opcode and
// types; and the accesses of what is no load or store. Calls cost their own control flow alone.
KernelMix CostOf(const ptx::Instruction& instruction);

// A load, store or the like.
struct MemoryAccess {
  enum class Kind {
    kNone,
    kAccess,    // By each thread.
    kBulkLoad,  // By one thread of a block, for all: from global memory, or to it.
    kBulkStore,
  };
  Kind kind = Kind::kNone;
  ptx::Space space = ptx::Space::kGeneric;
  double bytes = 0;                  // Of one thread; 0 of a bulk copy.
  bool both_ways = false;            // Reads and writes.
  std::size_t address = 0;           // Which operand is the address in `space`.
  std::size_t size = ptx::kNoIndex;  // Which one is the size of a bulk copy, if it has one.
};
MemoryAccess AccessOf(const ptx::Instruction& instruction);

// Which operand of an instruction that announces bytes of bulk loads (mbarrier … expect_tx) is
// their number; kNoIndex if it is none.
std::size_t ExpectedBytes(const ptx::Instruction& instruction);

}  // namespace cuspan::kernel_class
