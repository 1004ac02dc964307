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

}  // namespace cuspan::sharing
