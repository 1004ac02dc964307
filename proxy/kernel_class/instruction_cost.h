// Cost of one PTX instruction, as far as PTX shows it.
#pragma once

#include <cstddef>

#include "proxy/kernel_class/kernel_mix.h"
#include "proxy/ptx/module.h"

namespace cuspan::kernel_class {

// Arithmetic, special functions, control flow and tensor operations of an instruction, from its
// opcode and types; also the accesses of instructions other than loads and stores (shfl, ldmatrix).
// For a call, only its own control flow.
KernelMix CostOf(const ptx::Instruction& instruction);

// A load, store or similar access.
struct MemoryAccess {
  enum class Kind {
    kNone,
    kAccess,    // Access by each thread.
    kBulkLoad,  // Copy by one thread for its block: from global memory, or to it.
    kBulkStore,
  };
  Kind kind = Kind::kNone;
  ptx::Space space = ptx::Space::kGeneric;
  double bytes = 0;                  // Per thread; 0 for a bulk copy.
  bool both_ways = false;            // Reads and writes.
  std::size_t address = 0;           // Index of the operand with the address in `space`.
  std::size_t size = ptx::kNoIndex;  // Index of the operand with a bulk copy's size, if any.
};
MemoryAccess AccessOf(const ptx::Instruction& instruction);

// Index of the operand with the number of announced bytes of bulk loads (mbarrier … expect_tx);
// kNoIndex for other instructions.
std::size_t ExpectedBytes(const ptx::Instruction& instruction);

}  // namespace cuspan::kernel_class
