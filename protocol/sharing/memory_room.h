// What runs have of a shared GPU's memory, by its table. For share_table.cc and share_memory.cc.
#pragma once

#include <cstdint>

#include "protocol/sharing/share_layout.h"
#include "protocol/sharing/share_memory.h"

namespace cuspan::sharing {

// Bytes that the context of a run needs on a GPU with so many, and what else no program asks for by
// its size.
std::uint64_t ContextBytes(std::uint64_t gpu_memory);

MemoryRoom RoomOf(const Layout& table, std::uint32_t run);

// --- Of runs whose memory may be brought to the host (ShareTerms::swap).

// How much of what can not be brought there `run` may still have: whatever other runs have now must
// find room beside it.
std::uint64_t FixedRoomOf(const Layout& table, std::uint32_t run);

// How much of `run` is out or has to go, and by how much those who are there have more than the
// GPU; with `all`, as if the run were there as a whole.
struct SwapNeed {
  std::uint64_t out = 0;
  std::uint64_t lacks = 0;
};
SwapNeed SwapNeedOf(const Layout& table, std::uint32_t run, bool all);
// How much of it is out.
std::uint64_t SwappedOf(const Layout& table, std::uint32_t run);
// How long it takes to move so much (ns): as it did lately.
std::uint64_t TimeToSwap(const Layout& table, std::uint64_t bytes);
void LearnSwap(Layout& table, std::uint64_t bytes, std::uint64_t nanoseconds);

}  // namespace cuspan::sharing
