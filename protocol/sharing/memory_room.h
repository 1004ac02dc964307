// Memory use of runs on a shared GPU, computed from its table. For share_table.cc and
// share_memory.cc.
#pragma once

#include <cstdint>

#include "protocol/sharing/share_layout.h"
#include "protocol/sharing/share_memory.h"

namespace cuspan::sharing {

// Bytes reserved for a run's context on a GPU of this size, including other memory not requested by
// the program itself.
std::uint64_t ContextBytes(std::uint64_t gpu_memory);

MemoryRoom RoomOf(const Layout& table, std::uint32_t run);

// --- Runs with swapping (ShareTerms::swap)

// Bytes of non-swappable memory `run` may still allocate. The current memory of every other run
// must fit beside it.
std::uint64_t FixedRoomOf(const Layout& table, std::uint32_t run);

// `out`: bytes of `run` swapped out or to be evicted. `lacks`: by how much the memory on the GPU
// exceeds its size; with `all`, as if `run` were on the GPU completely.
struct SwapNeed {
  std::uint64_t out = 0;
  std::uint64_t lacks = 0;
};
SwapNeed SwapNeedOf(const Layout& table, std::uint32_t run, bool all);
// Bytes of `run` swapped out.
std::uint64_t SwappedOf(const Layout& table, std::uint32_t run);
// Expected time (ns) to move `bytes`, from recent measurements.
std::uint64_t TimeToSwap(const Layout& table, std::uint64_t bytes);
void LearnSwap(Layout& table, std::uint64_t bytes, std::uint64_t nanoseconds);

}  // namespace cuspan::sharing
