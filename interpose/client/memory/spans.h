// Runs of bytes sent to a device's own memory for a piece of the shared region.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

class Connection;
struct Incoming;

// Sends the bytes of `memory` at `spans` (offsets, in ascending order) to the same offsets from
// `base` on the device, and no bytes between them. `base` is a multiple of the patch's word. The
// memory must consist of whole words, and stay until SettleSpans has returned. Threads: any except
// the receiver's.
CUresult PostSpans(Connection& connection, std::uint64_t base, const std::byte* memory,
                   std::span<const BlockAllocator::Range> spans);
// The same in the order of `stream`. Spans of at most kMaxInlineBytes may change after the return.
CUresult PostSpans(Connection& connection, std::uint64_t stream, std::uint64_t base,
                   const std::byte* memory, std::span<const BlockAllocator::Range> spans);
// Returns once everything posted has arrived, for work on any stream.
CUresult SettleSpans(Connection& connection);

// Starts receiving a part of the region from the device, in the order of `stream`.
CUresult BeginReceive(Connection& connection, std::uint64_t stream,
                      const BlockAllocator::Range& part, const std::shared_ptr<Incoming>& incoming);

}  // namespace cuspan
