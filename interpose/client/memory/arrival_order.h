// In which order the bytes that one side wrote reach the other one, which may be waiting for a flag
// among them. Nobody knows in which order they were written. So what looks like a flag comes last:
// a word by itself, and the first and the last word of a longer piece.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

// Runs of bytes, in ascending order.
using ByteRuns = std::vector<BlockAllocator::Range>;

// Those of each part in ascending order.
using OrderedRuns = std::array<ByteRuns, 5>;

// Number of places that the runs are at: runs near each other are at one.
std::size_t CountPieces(const ByteRuns& runs);

// The runs, some of them cut in two or three, in the order of their arrival.
OrderedRuns InOrderOfArrival(const ByteRuns& runs);

}  // namespace cuspan
