// Runs of bytes that go to a device's own memory for a piece of the shared region.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

class Connection;

// The bytes of `memory` that `spans` name by their offsets, in ascending order, go to the same
// offsets from `base`, a multiple of the patch's word, on the device; nothing between them does.
// The memory must be as large as whole words, and stay until SettleSpans has returned. Any thread,
// but not the receiver's.
CUresult PostSpans(Connection& connection, std::uint64_t base, const std::byte* memory,
                   std::span<const BlockAllocator::Range> spans);
// Returns when all that was posted is there, for work on whatever stream.
CUresult SettleSpans(Connection& connection);

}  // namespace cuspan
